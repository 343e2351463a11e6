"""Optimal sets of unit vectors that have a closed form, in float64."""

import math

import torch
from jaxtyping import Float64
from torch import Tensor


def simplex(num_points: int, dim: int) -> Float64[Tensor, "l d"]:
    """The regular simplex that paper Algorithm 1 builds, for num_points ≤ dim + 1.

    The algorithm fills a lower-triangular matrix row by row. With L points, column i (from 1) holds

        μ_i(i) = √(L(L−i) / ((L−1)(L−i+1)))   and   μ_k(i) = −μ_i(i) / (L−i)   for k > i,

    which writes the whole matrix at once and keeps the loop's rounding errors from piling up.
    """
    points = torch.zeros(num_points, dim, dtype=torch.float64)
    if num_points == 1:
        points[0, 0] = 1.0  # the algorithm starts from e_1, and stops there
        return points
    left = num_points - torch.arange(1, num_points, dtype=torch.float64)  # L − i
    pivots = (num_points * left / ((num_points - 1) * (left + 1))).sqrt()
    columns = (-pivots / left).expand(num_points, -1).tril(diagonal=-1)
    columns.diagonal().copy_(pivots)
    points[:, : num_points - 1] = columns
    return points


def orthogonal_simplices(num_points: int, dim: int) -> Float64[Tensor, "l d"]:
    """num_points − dim simplices in mutually orthogonal subspaces, for dim + 1 < num_points ≤ 2·dim.

    No more than dim + 1 vectors can all be obtuse to each other, so a largest cosine of 0 is the optimum here. Sizes as
    even as possible make the ends of the range the simplex and the cross-polytope; the centroid is 0.
    """
    parts = num_points - dim
    size, larger = divmod(num_points, parts)
    sizes = [size + 1] * larger + [size] * (parts - larger)
    return torch.block_diag(*(simplex(size, size - 1) for size in sizes))  # type: ignore[no-untyped-call, no-any-return]


def polygon(num_points: int) -> Float64[Tensor, "l 2"]:
    """The regular polygon, optimal in the plane for any number of points."""
    angles = torch.arange(num_points, dtype=torch.float64) * (2 * math.pi / num_points)
    return torch.stack([angles.cos(), angles.sin()], dim=1)
