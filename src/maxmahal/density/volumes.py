"""How much room there is: volumes of balls, shells and ellipsoids, and where Gaussian features lie in them.

Everything is a logarithm in float64. A ball of radius 10 in 512 dimensions has a volume of about e^462, one of radius 1
about e^-717: plain numbers would overflow or vanish long before the feature sizes of real networks.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from maxmahal.errors import ArgumentError


def log_ball_volume(dim: int, radius: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
    """log of π^(d/2)·r^d / Γ(d/2 + 1)."""
    _require_dim(dim)
    return 0.5 * dim * math.log(math.pi) - math.lgamma(0.5 * dim + 1) + dim * _log_radius(radius)


def log_sphere_area(dim: int, radius: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
    """log of 2π^(d/2)·r^(d-1) / Γ(d/2), the surface of the ball; in one dimension its two ends."""
    _require_dim(dim)
    constant = math.log(2) + 0.5 * dim * math.log(math.pi) - math.lgamma(0.5 * dim)
    if dim == 1:
        return torch.full_like(_log_radius(radius), constant)  # 0·log 0 would be NaN at the center
    return constant + (dim - 1) * _log_radius(radius)


def log_shell_volume(dim: int, inner: Float[Tensor, "*s"], outer: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
    """log of the volume between two concentric spheres, without the cancellation of a difference of two balls."""
    if bool((inner > outer).any()) or bool((outer <= 0).any()):
        raise ArgumentError(
            "A shell needs 0 <= inner <= outer and an outer radius above 0; some radii break this. Swap or check them."
        )
    ratio = _log_radius(inner) - _log_radius(outer)
    return log_ball_volume(dim, outer) + (-torch.expm1(dim * ratio)).log()


def log_ellipsoid_volume(shape: Float[Tensor, "d d"], level: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
    """log of the volume of {z : zᵀ·shape·z <= level} for a positive definite ``shape``."""
    factor, failed = torch.linalg.cholesky_ex(shape.to(torch.float64))
    if int(failed):
        raise ArgumentError("shape must be positive definite: otherwise the set is unbounded. Check its eigenvalues.")
    stretch = float(factor.diagonal().log().sum())
    return log_ball_volume(len(shape), level.clamp_min(0).sqrt()) - stretch


def points_in_shell(
    count: int, dim: int, inner: float, outer: float, generator: torch.Generator
) -> Float[Tensor, "n d"]:
    """Points drawn uniformly between two spheres around the origin; ``inner`` 0 gives the whole ball."""
    _require_dim(dim)
    directions = torch.randn((count, dim), generator=generator, dtype=torch.float64)
    directions /= torch.linalg.vector_norm(directions, dim=1, keepdim=True)
    uniform = torch.rand((count, 1), generator=generator, dtype=torch.float64)
    kept = (inner / outer) ** dim  # r^d is uniform between inner^d and outer^d, in units of outer
    return directions * outer * (kept + (1 - kept) * uniform) ** (1 / dim)


def squared_radius_share(
    squared_radius: Float[Tensor, "*s"], dim: int, scale: float = 1.0, offset: float = 0.0
) -> Float[Tensor, "*s"]:
    """The share of Gaussian features within a sphere: the (noncentral) chi-square distribution function.

    Features are N(m, scale²·I), and ``offset`` is the distance of m from the sphere's center.
    """
    halves, weights = _mixture(dim, scale, offset)
    places = (squared_radius.to(torch.float64).clamp_min(0) / (2 * scale**2))[..., None]
    share: Tensor = (torch.special.gammainc(halves, places) * weights).sum(dim=-1)
    return share


def log_squared_radius_density(
    squared_radius: Float[Tensor, "*s"], dim: int, scale: float = 1.0, offset: float = 0.0
) -> Float[Tensor, "*s"]:
    """log of the density of that distribution, per unit of the squared radius."""
    halves, weights = _mixture(dim, scale, offset)
    places = (squared_radius.to(torch.float64) / (2 * scale**2))[..., None]
    logs = (halves - 1) * places.log() - places - torch.lgamma(halves) + weights.log()
    return torch.logsumexp(logs, dim=-1) - math.log(2 * scale**2)


def squared_radius_quantiles(
    shares: Float[Tensor, "*s"], dim: int, scale: float = 1.0, offset: float = 0.0
) -> Float[Tensor, "*s"]:
    """The squared radii within which these shares of the features lie, by bisection."""
    low = torch.zeros_like(shares, dtype=torch.float64)
    mean, deviation = scale**2 * dim + offset**2, scale * math.sqrt(2 * scale**2 * dim + 4 * offset**2)
    high = torch.full_like(low, mean + 60 * deviation)
    for _ in range(80):
        middle = 0.5 * (low + high)
        below = squared_radius_share(middle, dim, scale, offset) < shares
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return 0.5 * (low + high)


def _mixture(dim: int, scale: float, offset: float) -> tuple[Tensor, Tensor]:
    """Half the degrees of freedom and the weights of the Poisson mixture that a noncentral chi-square is."""
    _require_dim(dim)
    if not scale > 0:
        raise ArgumentError(f"scale must be positive, the deviation of one coordinate; got {scale}.")
    mean = 0.5 * (offset / scale) ** 2
    if mean == 0:
        return torch.tensor([0.5 * dim], dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    reach = 12 * math.sqrt(mean) + 40  # beyond it a Poisson weight is below 1e-16
    counts = torch.arange(max(0, math.floor(mean - reach)), math.ceil(mean + reach), dtype=torch.float64)
    weights = (counts * math.log(mean) - mean - torch.lgamma(counts + 1)).exp()
    return 0.5 * dim + counts, weights / weights.sum()


def _log_radius(radius: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
    if bool((radius < 0).any()):
        raise ArgumentError("A radius must not be negative; pass distances, or clamp them at 0.")
    return radius.to(torch.float64).log()


def _require_dim(dim: int) -> None:
    if dim < 1:
        raise ArgumentError(f"dim must be at least 1, the number of features; got {dim}.")
