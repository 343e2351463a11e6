"""Max-Mahalanobis centers (paper Algorithm 1, appendix B.1), and the random ones they are compared with."""

import math

import torch
from jaxtyping import Float, Float64
from torch import Tensor
from torch.nn.functional import normalize

from maxmahal.centers.quadratic_codes import quadratic_code, widest_quadratic_code
from maxmahal.centers.spherical_codes import spherical_code
from maxmahal.errors import ArgumentError, check_count
from maxmahal.random import generator


def require_norm(name: str, value: object) -> None:
    """Refuse a length that is not positive and finite."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value <= 0:
        raise ArgumentError(f"{name} must be a positive, finite number, such as the paper's 10; got {value!r}.")


def require_floating(dtype: torch.dtype) -> None:
    """Refuse a type that would round the coordinates of a center to whole numbers."""
    if not dtype.is_floating_point:
        raise ArgumentError(f"dtype must be a floating-point type, such as torch.float32; got {dtype}.")


def simplex(num_points: int, dim: int) -> Float64[Tensor, "l d"]:
    """The regular simplex that paper Algorithm 1 builds, for num_points ≤ dim + 1, without the loop's rounding errors:

    μ_i(i) = √(L(L−i) / ((L−1)(L−i+1)))   and   μ_k(i) = −μ_i(i) / (L−i)   for k > i, of L points, i from 1.
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

    No more than dim + 1 vectors can all be obtuse to each other, so a largest cosine of 0 is optimal; the centroid is
    0.
    """
    parts = num_points - dim
    size, larger = divmod(num_points, parts)
    sizes = [size + 1] * larger + [size] * (parts - larger)
    return torch.block_diag(*(simplex(size, size - 1) for size in sizes))  # type: ignore[no-untyped-call]


def polygon(num_points: int) -> Float64[Tensor, "l 2"]:
    """The regular polygon, optimal in the plane for any number of points."""
    angles = torch.arange(num_points, dtype=torch.float64) * (2 * math.pi / num_points)
    return torch.stack([angles.cos(), angles.sin()], dim=1)


# Classes up to which a search takes minutes and not hours, and comes closer to the best code than a closed form does:
# the second where the closed form is a coarse one.
_SEARCHED, _SEARCHED_IF_COARSE = 2_000, 20_000


def max_mahalanobis_centers(
    num_classes: int,
    dim: int,
    norm: float = 10.0,
    *,
    exact: bool = False,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Float[Tensor, "l d"]:
    """Centers of length ``norm`` whose largest cosine is as small as possible: argmin max_{i≠j} ⟨μ_i, μ_j⟩.

    Up to dim + 1 classes this is paper Algorithm 1 in closed form, and every cosine is −1/(L−1). Up to 2·dim classes
    orthogonal simplices are optimal, with largest cosine 0, and so are regular polygons in the plane. Beyond, a search
    seeded by ``seed`` comes close (see ``spherical_code``). Above 2,000 classes codes in closed form replace it (see
    ``quadratic_code``), unless ``dim`` has only a coarse one or none: then it goes on up to 20,000 classes, in minutes,
    and more classes without a code are refused. ``exact`` refuses all but the paper's own case.
    """
    check_count("num_classes", num_classes)
    check_count("dim", dim)
    require_norm("norm", norm)
    require_floating(dtype)
    if exact and num_classes > dim + 1:
        raise ArgumentError(
            f"exact centers need num_classes <= dim + 1, for only so many points are all equally far apart; got "
            f"num_classes={num_classes} and dim={dim}: raise dim to {num_classes - 1} or more, or drop exact."
        )
    code = widest_quadratic_code(num_classes, dim)
    if num_classes <= dim + 1:
        centers = simplex(num_classes, dim)
    elif dim == 1:
        raise ArgumentError(
            f"dim=1 is a line, which holds two centers of one length; got num_classes={num_classes}: raise dim to 2 "
            f"or more."
        )
    elif num_classes <= 2 * dim:
        centers = orthogonal_simplices(num_classes, dim)
    elif dim == 2:
        centers = polygon(num_classes)
    elif num_classes <= (_SEARCHED if code and code.order <= 1 else _SEARCHED_IF_COARSE):
        centers = spherical_code(num_classes, dim, seed=seed, device=device)
    elif code is None:
        raise ArgumentError(
            f"A search for {num_classes} centers in dim={dim} would take hours, and no closed form has so many: raise "
            f"dim, number the classes without gaps if there are fewer, or take random centers."
        )
    else:
        centers = quadratic_code(num_classes, dim, code=code, device=device)
    return centers.mul_(norm).to(device=device, dtype=dtype)


def random_centers(
    num_classes: int, dim: int, norm: float = 10.0, *, seed: int = 0, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "l d"]:
    """Centers drawn uniformly from the sphere of radius ``norm``: the paper's ablation MMC (rand)."""
    check_count("num_classes", num_classes)
    check_count("dim", dim)
    require_norm("norm", norm)
    require_floating(dtype)
    draws = generator(seed, "random centers")
    directions = torch.randn((num_classes, dim), generator=draws, dtype=torch.float64, device="cpu")
    return (norm * normalize(directions, dim=1)).to(dtype)
