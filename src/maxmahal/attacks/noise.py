"""Gaussian noise (paper Sec. 4.5): the worst of several draws."""

import math
from collections.abc import Callable

from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.attacks.checks import check_count
from maxmahal.attacks.worst_transform import Transformed, checked_ids, ids_of_tries, worst_of
from maxmahal.errors import ArgumentError
from maxmahal.random import normal


def gaussian_noise(
    images: Float[Tensor, "n c h w"], *, std: float, seed: int, sample_ids: Int[Tensor, " n"], clip: bool = True
) -> Float[Tensor, "n c h w"]:
    """Images plus noise of standard deviation ``std``; the paper's code does not clip to [0, 1] afterwards."""
    noisy = images + std * normal(sample_ids, images.shape[1:], "noise", seed).to(images.dtype)
    return noisy.clamp(0, 1) if clip else noisy


def worst_of_noise(
    model: Callable[[Tensor], Tensor],
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    *,
    std: float = 0.05,
    tries: int = 1,
    seed: int = 0,
    sample_ids: Int[Tensor, " n"] | None = None,
    clip: bool = True,
) -> Transformed:
    """The worst of ``tries`` draws of Gaussian noise; the first is ``gaussian_noise``'s own.

    ``model`` may be any function from images to logits.
    """
    check_count("tries", tries)
    if not (std >= 0 and math.isfinite(std)):
        raise ArgumentError(f"std must be zero or positive; got {std}.")
    ids = checked_ids(model, images, labels, sample_ids)

    def noisy(rows: Tensor, attempts: Tensor) -> Tensor:
        own = ids_of_tries(ids[rows], attempts)
        return gaussian_noise(images[rows], std=std, seed=seed, sample_ids=own, clip=clip)

    return worst_of(model, images, labels, tries, noisy)
