"""Panels and a legend as one drawing."""

from collections.abc import Sequence

from paper.gallery.scene import Scene, beside
from paper.gallery.svg import to_svg
from paper.gallery.types import Figure, Key, Record


def compose(title: str, scenes: Sequence[Scene], columns: int, legend: Sequence[Key] = ()) -> str:
    """All panels as one SVG."""
    return to_svg(together(title, scenes, columns, legend))


def together(title: str, scenes: Sequence[Scene], columns: int, legend: Sequence[Key] = ()) -> Scene:
    """All panels as one scene."""
    return beside(title, scenes, columns, [(key.ink, key.text, key.dash) for key in legend])


def whole_scene(figure: Figure, record: Record, frame: int | None = None) -> Scene | None:
    """A figure at a frame, or as a still; None for a figure that only knows how to draw itself as SVG."""
    if figure.panels is None:
        return None
    keys = figure.legend(record) if figure.legend else []
    return together(figure.title, figure.panels(record, frame), figure.columns, keys)
