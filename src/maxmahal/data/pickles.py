"""A safe reader of the CIFAR pickles: nothing that the file names is ever imported or called.

These files hold dictionaries, lists, numbers, byte strings and one array of bytes. The four names in them are replaced
by the harmless classes below; any other name is refused.
"""

import io
import math
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import UInt8

from maxmahal.data.reading import damaged, read_bytes
from maxmahal.errors import DataError


class _Harmless:
    def __setstate__(self, state: object) -> None:
        """Refuse, so that a file cannot set attributes of these classes."""
        raise pickle.UnpicklingError("it gives a state to something that has none")


class _Ndarray(_Harmless):
    """Replaces the type ``numpy.ndarray``, which the files only name."""


class _Dtype(_Harmless):
    """Replaces ``numpy.dtype``: keeps the code of the type, e.g. ``u1``."""

    def __init__(self, code: bytes | str, *_flags: object) -> None:
        self.code = code.encode() if isinstance(code, str) else code

    def __setstate__(self, state: object) -> None:
        """Byte order and alignment, which do not matter for single bytes."""


class _Array(_Harmless):
    """Replaces numpy's ``_reconstruct``: keeps the shape and the raw bytes until they are checked."""

    def __init__(self, *_description: object) -> None:
        self.shape: tuple[int, ...] = ()
        self.raw = b""

    def __setstate__(self, state: Any) -> None:
        _version, shape, dtype, is_fortran, raw = state
        if not isinstance(dtype, _Dtype) or dtype.code != b"u1" or is_fortran:
            raise pickle.UnpicklingError("its array does not hold plain bytes")
        # The types first: the product of a tuple and a number is a longer tuple.
        if type(shape) is not tuple or any(type(side) is not int or side < 0 for side in shape):
            raise pickle.UnpicklingError("its array has no shape")
        if not isinstance(raw, bytes) or math.prod(shape) != len(raw):
            raise pickle.UnpicklingError("the shape of its array does not fit its size")
        self.shape, self.raw = shape, raw


class _Bytes(_Harmless):
    """Replaces ``_codecs.encode``, by which Python 3 writes a byte string in an old pickle."""

    def __new__(cls, text: str, encoding: str) -> bytes:  # type: ignore[misc]
        """The byte string; no codec other than latin-1 is accepted."""
        if encoding != "latin1":
            raise pickle.UnpicklingError(f"it asks for the codec {encoding!r}")
        return text.encode("latin-1")


_REPLACEMENTS: dict[tuple[str, str], type] = {
    ("numpy", "ndarray"): _Ndarray,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("_codecs", "encode"): _Bytes,
}

# What the pickle module raises on damaged input; its documentation says that the list is not complete.
_DAMAGE = (
    pickle.UnpicklingError, EOFError, AttributeError, ImportError, LookupError, TypeError, ValueError, ArithmeticError,
    AssertionError, MemoryError, RecursionError, struct.error,
)  # fmt: skip


# What the official files consist of, and what Python writes for the same values: containers, constants, texts, memo,
# items, names, calls. The other opcodes can claim gigabytes (bytearray), hash what they like (sets) or make objects.
_OPCODES = b"\x80\x95}])(tNJKM\x88\x89\x8a\x85\x86\x87UTXCB\x8c\x8d\x8eqrhj\x94saue0.c\x93Rb"


# The version in Python, not the one in C, where a single wrong byte can allocate gigabytes.
_BASE: Any = pickle._Unpickler


class _Unpickler(_BASE):  # type: ignore[misc]
    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {code: _BASE.dispatch[code] for code in _OPCODES}

    def __init__(self, content: bytes, path: Path, way_out: str) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")
        self._path, self._way_out, self._bytes_left = path, way_out, len(content)

    def load_setitem(self) -> None:
        items = self.stack[-2:]
        del self.stack[-2:]
        self._set_items(items)

    def load_setitems(self) -> None:
        self._set_items(self.pop_mark())

    def _set_items(self, items: list[Any]) -> None:
        """Keys are texts: many numbers can share a hash, and to hash nested tuples can crash the interpreter."""
        if type(self.stack[-1]) is not dict or not all(isinstance(key, bytes | str) for key in items[::2]):
            raise pickle.UnpicklingError("a key of its dictionary is not a text")
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def load_reduce(self) -> None:
        super().load_reduce()
        # One text in the file can be encoded many times.
        self._bytes_left -= len(self.stack[-1]) if isinstance(self.stack[-1], bytes) else 0
        if self._bytes_left < 0:
            raise pickle.UnpicklingError("it makes more texts than it holds")

    dispatch |= {ord("s"): load_setitem, ord("u"): load_setitems, ord("R"): load_reduce}

    def find_class(self, module: str, name: str) -> type:
        if (module, name) not in _REPLACEMENTS:
            raise DataError(
                f"{self._path} asks to run {module}.{name}, which no official file does, and was refused; "
                f"delete it, then {self._way_out}"
            )
        return _REPLACEMENTS[module, name]


def read_pickle(path: Path, way_out: str) -> dict[bytes, object]:
    """The dictionary in a CIFAR pickle, made of plain values and the classes above only."""
    content = read_bytes(path, way_out)
    try:
        value = _Unpickler(content, path, way_out).load()
    except DataError:
        raise
    except _DAMAGE as error:
        # Only our own messages make sense to a user.
        reason = (
            str(error) if isinstance(error, pickle.UnpicklingError) else "truncated, or not a pickle of plain values"
        )
        raise damaged(path, reason, way_out) from error
    if not isinstance(value, dict):
        raise damaged(path, f"it holds a {type(value).__name__}, not a dictionary", way_out)
    return value


def image_entry(batch: dict[bytes, object], path: Path, way_out: str) -> UInt8[np.ndarray, "n 3 32 32"]:
    """The images of a CIFAR batch: rows of 3,072 bytes, plane by plane."""
    array = batch.get(b"data")
    if not isinstance(array, _Array) or len(array.shape) != 2 or array.shape[1] != 3 * 32 * 32:
        raise damaged(path, "its entry 'data' is not an array of rows of 3072 bytes", way_out)
    return np.frombuffer(array.raw, dtype=np.uint8).reshape(-1, 3, 32, 32)


def label_entry(
    batch: dict[bytes, object], key: bytes, count: int, classes: int, path: Path, way_out: str
) -> list[int]:
    """``count`` labels in 0..classes-1 from a CIFAR batch."""
    labels = batch.get(key)
    if not isinstance(labels, list) or len(labels) != count:
        raise damaged(path, f"its entry '{key.decode()}' is not a list of {count} labels", way_out)
    if not all(type(label) is int and 0 <= label < classes for label in labels):
        raise damaged(path, f"a value of '{key.decode()}' is not a number in 0..{classes - 1}", way_out)
    return labels


def name_entry(meta: dict[bytes, object], key: bytes, classes: int, path: Path, way_out: str) -> tuple[str, ...]:
    """The class names from a CIFAR meta file."""
    names = meta.get(key)
    if not isinstance(names, list) or len(names) != classes or not all(isinstance(name, bytes) for name in names):
        raise damaged(path, f"its entry '{key.decode()}' is not a list of {classes} names", way_out)
    return tuple(name.decode("latin-1") for name in names)
