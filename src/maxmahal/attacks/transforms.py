"""Gaussian noise and rotation (paper Sec. 4.5): the worst of several random transformations of each image.

Each sample keeps the first one that fools the model, or else the one with the smallest margin.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from maxmahal.attacks.checks import check_images, check_model
from maxmahal.attacks.model_outputs import check_answers, check_unchanged, predicted_classes
from maxmahal.attacks.objectives import MARGIN, Outputs
from maxmahal.attacks.oracle import full_float32, in_batches, judge
from maxmahal.attacks.result import Passes, Result, Spent
from maxmahal.attacks.threats import ANY_BOUNDS, Images
from maxmahal.errors import ArgumentError, check_count
from maxmahal.random import content_ids, derive, normal, uniform


@dataclass(frozen=True, repr=False)
class Transformed(Result):
    """What was found for each sample."""

    tries: Int[Tensor, " n"] = field(kw_only=True)
    """How many transformations of it were tried."""
    attempts: Int[Tensor, " n"] = field(kw_only=True)
    """The number of the one that was kept."""
    angles: Float[Tensor, " n"] | None = field(default=None, kw_only=True)
    """The rotation of each image in degrees, for rotations."""


def gaussian_noise(
    images: Images, *, std: float, seed: int, sample_ids: Int[Tensor, " n"], clip: bool = True
) -> Images:
    """Images plus noise of standard deviation ``std``; the paper's code does not clip to [0, 1] afterwards."""
    noisy = images + std * normal(sample_ids, images.shape[1:], "noise", seed).to(images.dtype)
    return noisy.clamp(0, 1) if clip else noisy


def worst_of_noise(
    model: Callable[[Tensor], Tensor],
    images: Images,
    labels: Int[Tensor, " n"],
    *,
    std: float = 0.05,
    tries: int = 1,
    seed: int = 0,
    sample_ids: Int[Tensor, " n"] | None = None,
    clip: bool = True,
) -> Transformed:
    """The worst of ``tries`` draws of Gaussian noise, the first ``gaussian_noise``'s own; for any function."""
    if not (std >= 0 and math.isfinite(std)):
        raise ArgumentError(f"std must be zero or positive; got {std}.")

    def noisy(some: Tensor, ids: Tensor) -> Tensor:
        return gaussian_noise(some, std=std, seed=seed, sample_ids=ids, clip=clip)

    return _worst_of(model, images, labels, sample_ids, tries, noisy)[0]


def rotate(images: Images, degrees: Float[Tensor, " n"]) -> Images:
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


def random_rotation(images: Images, *, max_degrees: float, seed: int, sample_ids: Int[Tensor, " n"]) -> Images:
    """Each image turned by an angle uniform in ±``max_degrees``."""
    return rotate(images, random_angles(sample_ids, max_degrees=max_degrees, seed=seed))


def worst_of_rotations(
    model: Callable[[Tensor], Tensor],
    images: Images,
    labels: Int[Tensor, " n"],
    *,
    max_degrees: float = 30.0,
    tries: int = 1,
    seed: int = 0,
    sample_ids: Int[Tensor, " n"] | None = None,
) -> Transformed:
    """The worst of ``tries`` rotations uniform in ±``max_degrees``, the first ``random_rotation``'s own."""
    if not (max_degrees >= 0 and math.isfinite(max_degrees)):
        raise ArgumentError(f"max_degrees must be zero or positive; got {max_degrees}.")

    def rotated(some: Tensor, ids: Tensor) -> Tensor:
        return random_rotation(some, max_degrees=max_degrees, seed=seed, sample_ids=ids)

    worst, ids = _worst_of(model, images, labels, sample_ids, tries, rotated)
    return replace(worst, angles=random_angles(ids, max_degrees=max_degrees, seed=seed))


@torch.no_grad()
def _worst_of(
    model: Callable[[Tensor], Tensor],
    images: Tensor,
    labels: Tensor,
    sample_ids: Tensor | None,
    tries: int,
    transform: Callable[[Tensor, Tensor], Tensor],
) -> tuple[Transformed, Int[Tensor, " n"]]:
    """The worst of the tries of ``transform``, a function of images and ids, and the ids that were kept."""
    check_count("tries", tries)
    check_images(images, labels, sample_ids, ANY_BOUNDS)
    check_model(model, images)
    ids = content_ids(images, labels) if sample_ids is None else sample_ids
    worst, kept_ids = images.clone(), ids.clone()
    fooled = torch.zeros_like(labels, dtype=torch.bool)
    attempts, tried = torch.zeros_like(labels), torch.zeros_like(labels)
    margins = torch.full_like(labels, torch.inf, dtype=torch.float32)
    for attempt in range(tries):
        rows = (~fooled).nonzero().squeeze(1)
        if not len(rows):
            break
        # The sample's own id for its first try, so that more tries only add to a single transformation.
        own = derive(ids[rows], torch.full_like(rows, attempt)) if attempt else ids[rows]
        moved = transform(images[rows], own)
        shown = moved.clone()
        with full_float32(moved.device):
            logits = in_batches(model, shown)
        check_unchanged(shown, moved)
        check_answers(predicted_classes(logits))
        tried[rows] += 1
        fools = logits.argmax(dim=1) != labels[rows]
        margin = MARGIN(Outputs(logits), labels[rows], None).to(margins.dtype)
        better = fools | (margin < margins[rows]) | (attempt == 0)
        taken = rows[better]
        worst[taken], kept_ids[taken], attempts[taken] = moved[better], own[better], attempt
        fooled[taken], margins[taken] = fools[better], margin[better]
    predictions = judge(model, worst).predictions
    looks = tried + 1
    passes, spent = Passes(int(looks.sum()), 0, int(looks.sum())), Spent(tried, looks, torch.zeros_like(looks), looks)
    found = (worst, predictions, predictions != labels, None, passes)
    return Transformed(*found, spent=spent, tries=tried, attempts=attempts), kept_ids
