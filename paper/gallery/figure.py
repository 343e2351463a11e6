"""A figure: a record that is computed once, drawings made from the record alone, and arrays packed into JSON."""

import base64
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from maxmahal.report.chart import Drawing, Key, arranged

FigureRecord = dict[str, Any]
"""What a figure keeps of a computation: everything in it can be written as JSON."""
PackedArray = dict[str, Any]


@dataclass(frozen=True)
class FigureOptions:
    """How to compute a record."""

    data_dir: Path | None = None
    quick: bool = False
    """A smaller computation, for a first look; the record and the page say so."""
    seed: int = 0


@dataclass(frozen=True)
class FigureTable:
    """A table under a figure."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    words: int = 1
    """How many columns at the left hold words; the others hold numbers."""
    strong: frozenset[tuple[int, int]] = field(default_factory=frozenset)
    """Cells (row, column) in bold."""


@dataclass(frozen=True)
class GalleryFigure:
    """One figure: ``compute`` makes its record, everything else reads only the record."""

    title: str
    about: str
    compute: Callable[[FigureOptions], FigureRecord]
    panels: Callable[[FigureRecord, int | None], list[Drawing]]
    """Its panels, at a frame of the animation or (None) as a still."""
    columns: int = 2
    cheap: bool = False
    """Whether its record takes a second, without training and without data files."""
    legend: Callable[[FigureRecord], list[Key]] | None = None
    table: Callable[[FigureRecord], FigureTable] | None = None
    frames: Callable[[FigureRecord], int] | None = None
    """How many frames its animation has."""
    player: Callable[[FigureRecord], FigureRecord] | None = None
    """What the page's script needs to play it."""
    turntable: Callable[[FigureRecord], FigureRecord] | None = None
    """What the page's script needs to rotate it."""
    caption: Callable[[FigureRecord], str] | None = None
    """Sizes, settings and accuracies of this record."""

    def draw(self, record: FigureRecord, frame: int | None = None) -> Drawing:
        """All panels and the legend as one drawing."""
        legend = self.legend(record) if self.legend else []
        return arranged(self.title, self.panels(record, frame), self.columns, legend)


def pack(array: np.ndarray) -> PackedArray:
    """Any array of numbers, without loss."""
    small = np.ascontiguousarray(array)
    data = base64.b64encode(zlib.compress(small.tobytes(), 9)).decode("ascii")
    return {"dtype": small.dtype.str, "shape": list(small.shape), "data": data}


def unpack(packed: PackedArray) -> np.ndarray:
    """The array that was packed."""
    raw = zlib.decompress(base64.b64decode(packed["data"]))
    return np.frombuffer(raw, dtype=np.dtype(packed["dtype"])).reshape(packed["shape"])


def bytes_text(array: np.ndarray) -> str:
    """The bytes as text, little end first, as the page's script reads them."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(np.ascontiguousarray(little).tobytes()).decode("ascii")


def quantise(points: np.ndarray, view: list[float], dtype: type[np.signedinteger[Any]]) -> np.ndarray:
    """Points (…, 2) as integers; ``view`` is the middle (x, y) and half the side of the square that they span.

    Points outside the square are moved to its border.
    """
    most = np.iinfo(dtype).max
    relative = (np.asarray(points, dtype=np.float64) - np.array(view[:2])) / view[2]
    whole: np.ndarray = np.rint(np.clip(relative, -1, 1) * most).astype(dtype)
    return whole


def restore(whole: np.ndarray, view: list[float]) -> np.ndarray:
    """Points (…, 2) back from ``quantise``, to half a step."""
    points: np.ndarray = np.array(view[:2]) + whole.astype(np.float64) / np.iinfo(whole.dtype).max * view[2]
    return points


def square_around(points: np.ndarray, share: float = 1.0, margin: float = 1.08) -> list[float]:
    """The middle and half the side of a square that holds the given share of the points (…, 2)."""
    flat = np.asarray(points, dtype=np.float64).reshape(-1, 2)
    low, high = np.quantile(flat, [(1 - share) / 2, (1 + share) / 2], axis=0)
    half = float((high - low).max()) / 2 * margin or 1.0
    middle = (low + high) / 2
    return [round(float(middle[0]), 4), round(float(middle[1]), 4), round(half, 4)]


def rounded(array: np.ndarray, digits: int = 3) -> list[Any]:
    """Nested lists of numbers that are short in JSON."""
    values: list[Any] = np.round(np.asarray(array, dtype=np.float64), digits).tolist()
    return values
