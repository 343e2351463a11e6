"""A figure as a file: SVG, PNG, GIF or a page."""

from pathlib import Path

from maxmahal.errors import ArgumentError
from maxmahal.files import write_atomically, write_text_atomically
from paper.gallery.compose import whole_scene
from paper.gallery.page import render_gallery
from paper.gallery.raster import gif_bytes, png_bytes
from paper.gallery.registry import find_figure
from paper.gallery.svg import stand_alone
from paper.gallery.types import Record

FORMATS = ("svg", "png", "gif", "html")


def check_format(name: str, path: Path) -> str:
    """The format that a file's ending asks for, if the figure can be written so."""
    figure, ending = find_figure(name), path.suffix.lower().lstrip(".")
    if ending not in FORMATS:
        raise ArgumentError(f"Figures cannot be written as '{path.name}'; end its name in .{', .'.join(FORMATS)}.")
    if ending == "gif" and figure.frames is None:
        raise ArgumentError(
            f"{name} does not move, so it cannot be written as {path.name}; choose .svg, .png or .html."
        )
    if ending == "png" and figure.panels is None:
        raise ArgumentError(f"{name} is drawn as SVG alone, not as {path.name}; choose .svg or .html.")
    return ending


def write_figure(name: str, record: Record, path: Path) -> None:
    """The figure in the format of the file's ending, from the record alone."""
    figure, ending = find_figure(name), check_format(name, path)
    if ending == "svg":
        write_text_atomically(path, stand_alone(figure.draw(record)))
    elif ending == "html":
        write_text_atomically(path, render_gallery({name: record}, figure.title))
    elif ending == "png":
        scene = whole_scene(figure, record)
        if scene is not None:
            write_atomically(path, lambda temporary: temporary.write_bytes(png_bytes(scene)))
    else:
        count = figure.frames(record) if figure.frames else 0
        scenes = [scene for frame in range(count) if (scene := whole_scene(figure, record, frame)) is not None]
        write_atomically(path, lambda temporary: temporary.write_bytes(gif_bytes(scenes)))
