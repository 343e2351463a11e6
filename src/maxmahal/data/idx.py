"""The idx format of MNIST and its relatives: two zero bytes, a type, the number of sizes, the sizes, the values."""

import math
import struct
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from maxmahal.data.reading import damaged, read_bytes

_UNSIGNED_BYTE = 8


def read_idx(path: Path, dimensions: int, way_out: str) -> UInt8[np.ndarray, "..."]:
    """The bytes of an idx file (gzipped or not) that must have ``dimensions`` dimensions."""
    content = read_bytes(path, way_out)
    header = 4 + 4 * dimensions
    if len(content) < header or content[:4] != bytes([0, 0, _UNSIGNED_BYTE, dimensions]):
        raise damaged(path, f"not an idx file of bytes with {dimensions} dimension(s)", way_out)
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    if len(content) - header != math.prod(shape):
        raise damaged(path, f"it promises {math.prod(shape)} values and holds {len(content) - header}", way_out)
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape).copy()
