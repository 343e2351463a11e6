"""A safe reader of the CIFAR pickles: nothing that the file names is ever imported or called.

The names of five functions in them stay texts, which say what the reader does by itself; any other name is refused.
"""

import io
import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import UInt8

from maxmahal.files import read_bytes

_DTYPE, _ENCODE = "numpy dtype", "_codecs encode"  # Python 3 writes a byte string in an old pickle by the second
_ARRAYS = ("numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct")
_KNOWN = (_DTYPE, _ENCODE, *_ARRAYS, "numpy ndarray")

# What the official files consist of, and what Python writes for the same values: containers, constants, texts, memo,
# items, names, calls. The other opcodes can claim gigabytes (bytearray), hash what they like (sets) or make objects.
_OPCODES = b"\x80\x95}])(tNJKM\x88\x89\x8a\x85\x86\x87UTXCB\x8c\x8d\x8eqrhj\x94saue0.c\x93Rb"


@dataclass
class _Array:
    """An array of bytes, checked before it becomes one."""

    shape: tuple[int, ...] = ()
    raw: bytes = b""

    def fill(self, state: Any) -> None:
        _version, shape, dtype, is_fortran, raw = state
        if dtype not in (b"u1", "u1") or is_fortran:
            raise pickle.UnpicklingError("its array does not hold plain bytes")
        # The types first: the product of a tuple and a number is a longer tuple.
        if type(shape) is not tuple or any(type(side) is not int or side < 0 for side in shape):
            raise pickle.UnpicklingError("its array has no shape")
        if not isinstance(raw, bytes) or math.prod(shape) != len(raw):
            raise pickle.UnpicklingError("the shape of its array does not fit its size")
        self.shape, self.raw = shape, raw


# The version in Python, not the one in C, where a single wrong byte can allocate gigabytes.
_BASE: Any = pickle._Unpickler


class _Unpickler(_BASE):  # type: ignore[misc]
    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {code: _BASE.dispatch[code] for code in _OPCODES}

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")
        self._bytes_left = len(content)

    def find_class(self, module: str, name: str) -> str:
        """The name itself instead of what it names."""
        if f"{module} {name}" not in _KNOWN:
            raise pickle.UnpicklingError(f"it asks to run {module}.{name}, which no official file does")
        return f"{module} {name}"

    def load_reduce(self) -> None:
        """A call of one of the known functions."""
        arguments, name = self.stack.pop(), self.stack.pop()
        if name in _ARRAYS:
            self.append(_Array())
        elif name == _DTYPE:
            self.append(arguments[0])  # the code of the type
        elif name == _ENCODE and arguments[1:] == ("latin1",):
            self.append(arguments[0].encode("latin-1"))
            self._bytes_left -= len(self.stack[-1])  # one text in the file can be encoded many times
        else:
            raise pickle.UnpicklingError("it calls what is not a function")
        if self._bytes_left < 0:
            raise pickle.UnpicklingError("it makes more texts than it holds")

    def load_build(self) -> None:
        """The state of an array; that of a type, its byte order, does not matter for single bytes."""
        state = self.stack.pop()
        if isinstance(self.stack[-1], _Array):
            self.stack[-1].fill(state)
        elif not isinstance(self.stack[-1], bytes | str):
            raise pickle.UnpicklingError("it gives a state to something that has none")

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

    dispatch |= {ord("R"): load_reduce, ord("b"): load_build, ord("s"): load_setitem, ord("u"): load_setitems}


def read_pickle(path: Path) -> dict[bytes, object]:
    """The dictionary in a CIFAR pickle, made of plain values only; a ValueError if there is none."""
    content = read_bytes(path)
    try:
        value = _Unpickler(content).load()
    except pickle.UnpicklingError as error:
        raise ValueError(str(error)) from error
    except Exception as error:  # pickle may raise anything on damaged input, and its words do not help
        raise ValueError("truncated, or not a pickle of plain values") from error
    if not isinstance(value, dict):
        raise ValueError(f"it holds a {type(value).__name__}, not a dictionary")
    return value


def images_in(batch: dict[bytes, object]) -> UInt8[np.ndarray, "n 3 32 32"]:
    """The images of a CIFAR batch: rows of 3,072 bytes, plane by plane."""
    array = batch.get(b"data")
    if not isinstance(array, _Array) or len(array.shape) != 2 or array.shape[1] != 3 * 32 * 32:
        raise ValueError("its entry 'data' is not an array of rows of 3072 bytes")
    return np.frombuffer(array.raw, dtype=np.uint8).reshape(-1, 3, 32, 32)


def labels_in(batch: dict[bytes, object], key: bytes, count: int, classes: int) -> list[int]:
    """``count`` labels in 0..classes-1 from a CIFAR batch."""
    labels = batch.get(key)
    if not isinstance(labels, list) or len(labels) != count:
        raise ValueError(f"its entry '{key.decode()}' is not a list of {count} labels")
    if not all(type(label) is int and 0 <= label < classes for label in labels):
        raise ValueError(f"a value of '{key.decode()}' is not a number in 0..{classes - 1}")
    return labels


def names_in(meta: dict[bytes, object], key: bytes, classes: int) -> tuple[str, ...]:
    """The class names from a CIFAR meta file."""
    names = meta.get(key)
    if not isinstance(names, list) or len(names) != classes or not all(isinstance(name, bytes) for name in names):
        raise ValueError(f"its entry '{key.decode()}' is not a list of {classes} names")
    return tuple(name.decode("latin-1") for name in names)
