"""Figures as files: SVG, PNG, GIF, or an HTML page that needs only a browser."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image

from maxmahal.errors import ArgumentError
from maxmahal.files import write_atomically, write_text_atomically
from maxmahal.report.chart import Drawing, Key
from maxmahal.report.figures import to_image, write_drawing
from maxmahal.report.layout import asset as report_asset
from maxmahal.report.layout import script_hash
from maxmahal.version import __version__
from paper.gallery.figure import FigureRecord, FigureTable, GalleryFigure
from paper.gallery.registry import find_figure

FORMATS = ("svg", "png", "gif", "html")


@dataclass(frozen=True)
class FigureSection:
    """One figure on the page."""

    name: str
    title: str
    nav: str
    about: str
    caption: str
    quick: bool
    panels: list[tuple[str, Markup]]
    """Titles and drawings."""
    columns: int
    legend: list[Key]
    table: FigureTable | None
    player: Markup | None
    turntable: Markup | None


def check_format(name: str, path: Path) -> str:
    """The format of a file's ending, if the figure can be written in it."""
    figure, ending = find_figure(name), path.suffix.lower().lstrip(".")
    if ending not in FORMATS:
        raise ArgumentError(f"Figures cannot be written as '{path.name}'; end its name in .{', .'.join(FORMATS)}.")
    if ending == "gif" and figure.frames is None:
        raise ArgumentError(
            f"{name} has no animation, so it cannot be written as {path.name}; choose .svg, .png or .html."
        )
    return ending


def write_figure(name: str, record: FigureRecord, path: Path) -> None:
    """The figure in the format of the file's ending, from the record alone."""
    figure, ending = find_figure(name), check_format(name, path)
    if ending == "html":
        write_text_atomically(path, render_gallery({name: record}, figure.title))
    elif ending == "gif":
        count = figure.frames(record) if figure.frames else 0
        animation = gif_bytes([figure.draw(record, frame) for frame in range(count)])
        write_atomically(path, lambda temporary: temporary.write_bytes(animation))
    else:
        write_drawing(figure.draw(record), path, ending)


def gif_bytes(drawings: Sequence[Drawing], milliseconds: int = 120) -> bytes:
    """An animated GIF that restarts after a pause on its last frame."""
    images = [to_image(drawing).quantize(128, dither=Image.Dither.NONE) for drawing in drawings]
    durations = [milliseconds] * (len(images) - 1) + [1500]
    stream = io.BytesIO()
    images[0].save(
        stream, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=True, disposal=1
    )
    return stream.getvalue()


def render_gallery(records: Mapping[str, FigureRecord], title: str = "Feature space in pictures") -> str:
    """The page's HTML."""
    script = report_asset("script.js") + _asset("gallery.js")
    environment = Environment(
        loader=FunctionLoader(_asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("gallery.html.j2").render(
        title=title,
        figures=[_section(name, find_figure(name), record) for name, record in records.items()],
        style=Markup(report_asset("style.css") + _asset("gallery.css")),
        script=Markup(script),
        script_hash=script_hash(script),
        version=__version__,
    )


def _section(name: str, figure: GalleryFigure, record: FigureRecord) -> FigureSection:
    return FigureSection(
        name,
        figure.title,
        _nav(name),
        figure.about,
        figure.caption(record) if figure.caption else "",
        bool(record.get("quick", False)),
        [(drawing.title, drawing.svg("drawing")) for drawing in figure.panels(record, None)],
        figure.columns,
        figure.legend(record) if figure.legend else [],
        figure.table(record) if figure.table else None,
        _script_data(figure.player(record)) if figure.player else None,
        _script_data(figure.turntable(record)) if figure.turntable else None,
    )


def _nav(name: str) -> str:
    words = name.replace("figure", "figure ").replace("-", " ")
    return words[0].upper() + words[1:]


def _script_data(value: FigureRecord) -> Markup:
    """JSON for a data block; no name in it can close the element around it."""
    return Markup(json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"))


def _asset(name: str) -> str:
    return (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8")
