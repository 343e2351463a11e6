"""A figure: a record that is computed once, drawings made from the record alone, and arrays packed into JSON."""

import base64
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    """A smaller computation, for tests."""
    seed: int = 0


@dataclass(frozen=True)
class GalleryFigure:
    """One figure: ``compute`` makes its record, everything else reads only the record."""

    title: str
    compute: Callable[[FigureOptions], FigureRecord]
    panels: Callable[[FigureRecord], list[Drawing]]
    legend: Sequence[Key] = ()
    table: Callable[[FigureRecord], str] | None = None
    """Its numbers, in Markdown."""
    columns: int = 2

    def draw(self, record: FigureRecord) -> Drawing:
        """All panels and the legend as one drawing."""
        return arranged(self.title, self.panels(record), self.columns, list(self.legend))


def pack(array: np.ndarray) -> PackedArray:
    """Any array of numbers, without loss."""
    small = np.ascontiguousarray(array)
    data = base64.b64encode(zlib.compress(small.tobytes(), 9)).decode("ascii")
    return {"dtype": small.dtype.str, "shape": list(small.shape), "data": data}


def unpack(packed: PackedArray) -> np.ndarray:
    """The array that was packed."""
    raw = zlib.decompress(base64.b64decode(packed["data"]))
    return np.frombuffer(raw, dtype=np.dtype(packed["dtype"])).reshape(packed["shape"])


def quantise(points: np.ndarray, view: list[float]) -> np.ndarray:
    """Points (…, 2) as 16-bit integers; ``view`` is the middle (x, y) and half the side of the square that they span.

    Points outside the square are moved to its border.
    """
    relative = (np.asarray(points, dtype=np.float64) - np.array(view[:2])) / view[2]
    whole: np.ndarray = np.rint(np.clip(relative, -1, 1) * np.iinfo(np.int16).max).astype(np.int16)
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
