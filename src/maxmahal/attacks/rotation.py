"""Rotation (paper Sec. 4.5): the worst of several random angles."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from maxmahal.attacks.checks import check_count
from maxmahal.attacks.worst_transform import Transformed, checked_ids, ids_of_tries, worst_of
from maxmahal.errors import ArgumentError
from maxmahal.random import uniform


def rotate(images: Float[Tensor, "n c h w"], degrees: Float[Tensor, " n"]) -> Float[Tensor, "n c h w"]:
    """Each image turned counter-clockwise by its own angle: bilinear, the edge's pixels filling the corners."""
    height, width = images.shape[2:]
    radians = degrees.to(images.dtype) * (math.pi / 180)
    cos, sin, zero = radians.cos(), radians.sin(), torch.zeros_like(radians)
    # grid_sample's coordinates run from -1 to 1 along both axes, so the off-diagonal terms carry the aspect ratio.
    rows = [
        torch.stack([cos, -sin * height / width, zero], dim=1),
        torch.stack([sin * width / height, cos, zero], dim=1),
    ]
    grid = F.affine_grid(torch.stack(rows, dim=1), list(images.shape), align_corners=False)
    turned = F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)
    # A mean of pixels cannot leave their range, but its rounding can, and then [0, 1] would not hold to the last bit.
    return turned.clamp(images.amin(dim=(1, 2, 3), keepdim=True), images.amax(dim=(1, 2, 3), keepdim=True))


def random_angles(sample_ids: Int[Tensor, " n"], *, max_degrees: float, seed: int) -> Float[Tensor, " n"]:
    """One angle for each sample, uniform in ±``max_degrees``."""
    return (2 * uniform(sample_ids, (), "rotation", seed) - 1) * max_degrees


def random_rotation(
    images: Float[Tensor, "n c h w"], *, max_degrees: float, seed: int, sample_ids: Int[Tensor, " n"]
) -> Float[Tensor, "n c h w"]:
    """Each image turned by an angle uniform in ±``max_degrees``."""
    return rotate(images, random_angles(sample_ids, max_degrees=max_degrees, seed=seed))


def worst_of_rotations(
    model: Callable[[Tensor], Tensor],
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    *,
    max_degrees: float = 30.0,
    tries: int = 1,
    seed: int = 0,
    sample_ids: Int[Tensor, " n"] | None = None,
) -> Transformed:
    """The worst of ``tries`` rotations by angles uniform in ±``max_degrees``; the first is ``random_rotation``'s own.

    ``model`` may be any function from images to logits.
    """
    check_count("tries", tries)
    if not (max_degrees >= 0 and math.isfinite(max_degrees)):
        raise ArgumentError(f"max_degrees must be zero or positive; got {max_degrees}.")
    ids = checked_ids(model, images, labels, sample_ids)

    def angles(rows: Tensor, attempts: Tensor) -> Tensor:
        return random_angles(ids_of_tries(ids[rows], attempts), max_degrees=max_degrees, seed=seed)

    def rotated(rows: Tensor, attempts: Tensor) -> Tensor:
        return rotate(images[rows], angles(rows, attempts))

    worst = worst_of(model, images, labels, tries, rotated)
    return replace(worst, angles=angles(torch.arange(len(images), device=images.device), worst.attempts))
