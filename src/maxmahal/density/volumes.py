"""Volumes of balls and shells, as logarithms in float64.

A ball of radius 10 in 512 dimensions has a volume of about e^462, one of radius 1 about e^-717: plain numbers would
overflow or underflow for the feature sizes of real networks.
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


def log_shell_volume(dim: int, inner: Float[Tensor, "*s"], outer: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
    """log of the volume between two concentric spheres, without the cancellation of a difference of two balls."""
    if bool((inner > outer).any()) or bool((outer <= 0).any()):
        raise ArgumentError(
            "A shell needs 0 <= inner <= outer and an outer radius above 0; some radii break this. Swap or check them."
        )
    ratio = _log_radius(inner) - _log_radius(outer)
    return log_ball_volume(dim, outer) + (-torch.expm1(dim * ratio)).log()


def _log_radius(radius: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
    if bool((radius < 0).any()):
        raise ArgumentError("A radius must not be negative; pass distances, or clamp them at 0.")
    return radius.to(torch.float64).log()


def _require_dim(dim: int) -> None:
    if dim < 1:
        raise ArgumentError(f"dim must be at least 1, the number of features; got {dim}.")
