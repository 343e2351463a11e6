"""Spherical codes: points on the unit sphere whose smallest angle is as large as a search can make it.

Many random starts relax side by side: each point steps away from its nearest neighbours, ever more sharply.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float64
from torch import Tensor
from torch.nn.functional import normalize

from maxmahal.errors import check_count
from maxmahal.random import generator

# 2^24 cosines in float64 are 128 MiB: large enough to keep a GPU busy, small enough for any machine.
BLOCK_ENTRIES = 2**24


def cosine_blocks(points: Float64[Tensor, "r l d"]) -> Iterator[tuple[slice, Float64[Tensor, "r b l"]]]:
    """The rows of each block and their cosines with every point, −∞ with itself; the caller may overwrite a block."""
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


_MOMENTUM = 0.9
_STEP_PER_DIM = 0.1  # a point has about dim near neighbours, and each takes its share of the force
# Sharpness in units of the spacing of the points. Starts differ in how blurred they begin: a blurred start always falls
# into the widest valley, a sharp one into a valley near it, and the best code may lie in either.
_FIRST_SHARPNESS = (0.4, 8.0)
_LAST_SHARPNESS = 1e4
# exp(−50) is nothing beside the nearest neighbour's exp(0), and exp of less makes denormals, which are slow.
_LEAST_EXPONENT = -50.0


def spherical_code(
    num_points: int,
    dim: int,
    *,
    restarts: int | None = None,
    steps: int | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Float64[Tensor, "l d"]:
    """Unit vectors that nearly minimise their largest cosine, the criterion μ* = argmin max_{i≠j} ⟨μ_i, μ_j⟩.

    The best of ``restarts`` random starts. Left out, ``restarts`` and ``steps`` shrink as points grow in number: a
    second or so on one core for 50 points, five for 1,000. Memory is bounded by row blocks, time is not.
    """
    check_count("num_points", num_points, least=2)  # one point has no neighbour to step away from
    check_count("dim", dim, least=2)
    if restarts is None:
        restarts = max(1, min(512, 300_000 // num_points**2))  # about 2 ms a step on one core while points are few
    if steps is None:
        steps = max(100, min(600, 40_000_000_000 // num_points**2))  # about ten minutes on one core for 20,000
    check_count("restarts", restarts)
    check_count("steps", steps)

    draws = generator(seed, "spherical code", num_points, dim)
    shape = (restarts, num_points, dim)
    starts = torch.randn(shape, generator=draws, dtype=torch.float64, device="cpu").to(device)
    points = _relax(normalize(starts, dim=2), steps)
    return points[largest_cosine(points).argmin()]


def _relax(points: Float64[Tensor, "r l d"], steps: int) -> Float64[Tensor, "r l d"]:
    """Momentum descent on the sphere, with geometrically growing sharpness and a step that shrinks with it."""
    restarts, num_points, dim = points.shape
    # Neighbours among evenly spread points have 1 − cos of this order: a unit in which "near" means the same anywhere.
    spacing = num_points ** (-2 / (dim - 1))
    low, high = _FIRST_SHARPNESS
    fractions = (torch.arange(restarts, dtype=torch.float64, device=points.device) + 0.5) / restarts
    first = (low * (high / low) ** fractions)[:, None, None]
    velocity = torch.zeros_like(points)
    for step in range(steps):
        sharpness = first * (_LAST_SHARPNESS / first) ** (step / max(1, steps - 1))
        pull = _soft_neighbours(points, sharpness / spacing)
        pull -= (pull * points).sum(dim=2, keepdim=True) * points  # only the part along the sphere moves a point
        velocity = _MOMENTUM * velocity - pull
        points = normalize(points + _STEP_PER_DIM * dim / sharpness * velocity, dim=2)
    return points


def _soft_neighbours(points: Float64[Tensor, "r l d"], sharpness: Float64[Tensor, "r 1 1"]) -> Float64[Tensor, "r l d"]:
    """Each point's neighbours, averaged with softmax weights: the gradient of its own (1/β)·log Σ_j exp(β·cos_ij)."""
    averages = torch.empty_like(points)
    for rows, cosines in cosine_blocks(points):
        nearest = cosines.amax(dim=2, keepdim=True)
        # In place, and not torch.softmax: several times as fast for the short rows of a few points.
        weights = cosines.sub_(nearest).mul_(sharpness).clamp_(min=_LEAST_EXPONENT).exp_()
        averages[:, rows] = weights @ points / weights.sum(dim=2, keepdim=True)
    return averages
