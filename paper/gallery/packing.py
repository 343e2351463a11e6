"""Arrays inside JSON: compressed bytes as text, and positions rounded to the steps of a small integer."""

import base64
import zlib
from typing import Any

import numpy as np

Packed = dict[str, Any]


def pack(array: np.ndarray) -> Packed:
    """Any array of numbers, without loss."""
    small = np.ascontiguousarray(array)
    data = base64.b64encode(zlib.compress(small.tobytes(), 9)).decode("ascii")
    return {"dtype": small.dtype.str, "shape": list(small.shape), "data": data}


def unpack(packed: Packed) -> np.ndarray:
    """What ``pack`` was given."""
    raw = zlib.decompress(base64.b64decode(packed["data"]))
    return np.frombuffer(raw, dtype=np.dtype(packed["dtype"])).reshape(packed["shape"])


def bytes_text(array: np.ndarray) -> str:
    """The bare bytes as text, little end first, as the page's script reads them."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(np.ascontiguousarray(little).tobytes()).decode("ascii")


def quantise(points: np.ndarray, view: list[float], dtype: type[np.signedinteger[Any]]) -> np.ndarray:
    """Points (…, 2) as integers; ``view`` is the middle (x, y) and half the side of the square that they span.

    What lies outside the square is put on its rim.
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
    """Nested lists of numbers that JSON keeps short."""
    values: list[Any] = np.round(np.asarray(array, dtype=np.float64), digits).tolist()
    return values
