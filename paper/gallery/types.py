"""What a figure is: a record that is computed once, and drawings made of the record alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paper.gallery.scene import Scene

Record = dict[str, Any]
"""What a figure keeps of a computation: everything in it can be written as JSON."""


@dataclass(frozen=True)
class Options:
    """How to compute a record."""

    data_dir: Path | None = None
    quick: bool = False
    """A smaller computation, for a first look; the record and the drawing say so."""
    seed: int = 0


@dataclass(frozen=True)
class Sheet:
    """A table under a figure."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    words: int = 1
    """How many columns at the left hold words; the others hold numbers."""
    strong: frozenset[tuple[int, int]] = field(default_factory=frozenset)
    """Cells (row, column) that stand out."""


@dataclass(frozen=True)
class Key:
    """One entry of a legend."""

    ink: str
    text: str
    dash: bool = False


@dataclass(frozen=True)
class Figure:
    """One figure: ``compute`` makes its record, everything else reads nothing but the record."""

    title: str
    about: str
    compute: Callable[[Options], Record]
    draw: Callable[[Record], str]
    """The whole figure as one SVG."""
    panels: Callable[[Record, int | None], list[Scene]] | None = None
    """Its panels one by one, for pages and pixels; at a frame of the animation, or (None) as a still."""
    columns: int = 2
    cheap: bool = False
    """Whether its record takes a second, without training and without data files."""
    legend: Callable[[Record], list[Key]] | None = None
    sheet: Callable[[Record], Sheet] | None = None
    frames: Callable[[Record], int] | None = None
    """How many frames its animation has."""
    player: Callable[[Record], Record] | None = None
    """What the page's script needs to play it."""
    turntable: Callable[[Record], Record] | None = None
    """What the page's script needs to turn it in space."""
    caption: Callable[[Record], str] | None = None
    """What to know about this very record: sizes, settings, accuracies."""
