"""The gallery page: every figure from its record, in one HTML file that needs nothing but a browser."""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from maxmahal.report.render import asset as report_asset
from maxmahal.version import __version__
from paper.gallery.palette import ink_rules
from paper.gallery.registry import find_figure
from paper.gallery.svg import to_svg
from paper.gallery.types import Figure, Key, Record, Sheet


@dataclass(frozen=True)
class Exhibit:
    """One figure on the page."""

    name: str
    title: str
    nav: str
    about: str
    caption: str
    quick: bool
    panels: list[tuple[str, Markup]]
    """Titles and drawings; a single drawing without a title where the figure has no panels."""
    columns: int
    legend: list[Key]
    sheet: Sheet | None
    player: Markup | None
    turntable: Markup | None


def render_gallery(records: Mapping[str, Record], title: str = "Feature space in pictures") -> str:
    """The page's HTML."""
    script = report_asset("script.js") + _asset("gallery.js")
    environment = Environment(
        loader=FunctionLoader(_asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("gallery.html.j2").render(
        title=title,
        exhibits=[_exhibit(name, find_figure(name), record) for name, record in records.items()],
        style=Markup(report_asset("style.css") + ink_rules() + _asset("gallery.css")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
        version=__version__,
    )


def _exhibit(name: str, figure: Figure, record: Record) -> Exhibit:
    if figure.panels is None:
        panels = [("", Markup(figure.draw(record)))]
    else:
        panels = [(scene.title, Markup(to_svg(scene))) for scene in figure.panels(record, None)]
    return Exhibit(
        name,
        figure.title,
        _nav(name),
        figure.about,
        figure.caption(record) if figure.caption else "",
        bool(record.get("quick", False)),
        panels,
        figure.columns,
        figure.legend(record) if figure.legend else [],
        figure.sheet(record) if figure.sheet else None,
        _script_data(figure.player(record)) if figure.player else None,
        _script_data(figure.turntable(record)) if figure.turntable else None,
    )


def _nav(name: str) -> str:
    words = name.replace("figure", "figure ").replace("-", " ")
    return words[0].upper() + words[1:]


def _script_data(value: Record) -> Markup:
    """JSON for a data block: no name in it can close the element it stands in."""
    return Markup(json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"))


def _asset(name: str) -> str:
    return (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8")
