"""General-purpose attacks that need no gradient: Gaussian noise and rotation (paper Sec. 4.5)."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from maxmahal.random import normal, uniform


def gaussian_noise(
    images: Float[Tensor, "n c h w"], *, std: float, seed: int, sample_ids: Int[Tensor, " n"], clip: bool = True
) -> Float[Tensor, "n c h w"]:
    """Images plus noise of standard deviation ``std``; the paper's code does not clip to [0, 1] afterwards."""
    noisy = images + std * normal(sample_ids, images.shape[1:], "noise", seed).to(images.dtype)
    return noisy.clamp(0, 1) if clip else noisy


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
