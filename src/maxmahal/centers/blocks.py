"""Cosines of many points, a block of rows at a time, so that memory stays bounded as the points grow in number."""

from collections.abc import Iterator

import torch
from jaxtyping import Float64
from torch import Tensor

# 2^24 cosines in float64 are 128 MiB: large enough to keep a GPU busy, small enough for any machine.
BLOCK_ENTRIES = 2**24


def cosine_blocks(points: Float64[Tensor, "r l d"]) -> Iterator[tuple[slice, Float64[Tensor, "r b l"]]]:
    """The rows of each block and their cosines with every point; a point's cosine with itself reads −∞.

    ``points`` are unit vectors, ``r`` separate sets of them. The caller may overwrite a block.
    """
    sets, count, _ = points.shape
    height = max(1, BLOCK_ENTRIES // (sets * count))
    for start in range(0, count, height):
        rows = slice(start, min(start + height, count))
        cosines = points[:, rows] @ points.mT
        cosines.diagonal(offset=start, dim1=1, dim2=2).fill_(-torch.inf)
        yield rows, cosines


def largest_cosine(points: Float64[Tensor, "r l d"]) -> Float64[Tensor, " r"]:
    """The largest cosine between two points of each set; −1, the least there is, for a set of one point."""
    largest = torch.stack([cosines.amax(dim=(1, 2)) for _, cosines in cosine_blocks(points)])
    return largest.amax(dim=0).clamp(-1.0, 1.0)
