"""The worst of several transformations: noise drawn again and again, random turns, a grid of angles.

Each sample keeps the first transformation that fools the model, and is not looked at again; a sample that none of them
fools keeps the one with the smallest margin. The unchanged image is not among them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from maxmahal.attacks.checks import check_count
from maxmahal.attacks.first_look import told_apart
from maxmahal.attacks.objectives import margin
from maxmahal.attacks.outputs import Outputs
from maxmahal.attacks.transforms import gaussian_noise, random_angles, rotate
from maxmahal.errors import ArgumentError
from maxmahal.random import derive


@dataclass(frozen=True)
class Transformed:
    """What was found for each sample."""

    images: Float[Tensor, "n c h w"]
    fooled: Bool[Tensor, " n"]
    passes: int
    """How many images the model was shown."""
    tries: Int[Tensor, " n"]
    """How many of them were this sample's."""
    angles: Float[Tensor, " n"] | None = None
    """The turn of each image in degrees, for rotations."""


def worst_of_noise(
    predict: Callable[[Tensor], Tensor],
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    *,
    std: float,
    tries: int,
    seed: int,
    sample_ids: Int[Tensor, " n"],
    clip: bool = True,
) -> Transformed:
    """The worst of ``tries`` draws of Gaussian noise; the first is ``gaussian_noise``'s own.

    ``predict`` is a model, or any function from images to logits.
    """
    check_count("tries", tries)
    if not (std >= 0 and math.isfinite(std)):
        raise ArgumentError(f"std must be zero or positive; got {std}.")
    _check_ids(sample_ids, images)

    def noisy(rows: Tensor, attempts: Tensor) -> Tensor:
        ids = _ids_of_tries(sample_ids[rows], attempts)
        return gaussian_noise(images[rows], std=std, seed=seed, sample_ids=ids, clip=clip)

    worst = _worst_of(predict, images, labels, tries, noisy)
    return Transformed(worst.images, worst.fooled, worst.passes, worst.tries)


def worst_of_rotations(
    predict: Callable[[Tensor], Tensor],
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    *,
    max_degrees: float,
    tries: int,
    seed: int,
    sample_ids: Int[Tensor, " n"],
) -> Transformed:
    """The worst of ``tries`` turns by angles uniform in ±``max_degrees``; the first is ``random_rotation``'s own."""
    check_count("tries", tries)
    _check_degrees(max_degrees)
    _check_ids(sample_ids, images)

    def angles(rows: Tensor, attempts: Tensor) -> Tensor:
        return random_angles(_ids_of_tries(sample_ids[rows], attempts), max_degrees=max_degrees, seed=seed)

    return _worst_turn(predict, images, labels, tries, angles)


def rotation_grid(
    predict: Callable[[Tensor], Tensor],
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    *,
    angles: Sequence[float],
) -> Transformed:
    """The worst turn of a list of angles in degrees, tried in their order; ``angle_grid`` makes an even list."""
    if not angles or not all(math.isfinite(angle) for angle in angles):
        raise ArgumentError(f"angles must be a list of at least one finite number of degrees; got {list(angles)}.")
    grid = torch.tensor(angles, dtype=torch.float32, device=images.device)
    return _worst_turn(predict, images, labels, len(angles), lambda _, attempts: grid[attempts])


def angle_grid(max_degrees: float, count: int) -> tuple[float, ...]:
    """``count`` evenly spaced angles from -``max_degrees`` to ``max_degrees``, the widest first: they fool soonest."""
    _check_degrees(max_degrees)
    check_count("count", count, least=2)
    angles = [max_degrees * (2 * place - (count - 1)) / (count - 1) for place in range(count)]
    return tuple(sorted(angles, key=abs, reverse=True))


# (rows [m], number of the try for each of them [m]) -> one value or image for each row
_OfTries = Callable[[Tensor, Tensor], Tensor]


def _ids_of_tries(sample_ids: Int[Tensor, " n"], attempts: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """The sample's own id for its first try, so that more tries only add to a single transformation."""
    return torch.where(attempts == 0, sample_ids, derive(sample_ids, attempts))


def _worst_turn(
    predict: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor, tries: int, angles: _OfTries
) -> Transformed:
    def turned(rows: Tensor, attempts: Tensor) -> Tensor:
        return rotate(images[rows], angles(rows, attempts))

    worst = _worst_of(predict, images, labels, tries, turned)
    everyone = torch.arange(len(images), device=images.device)
    turns = angles(everyone, worst.attempts)
    return Transformed(worst.images, worst.fooled, worst.passes, worst.tries, turns)


@torch.no_grad()
def _worst_of(
    predict: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor, tries: int, transform: _OfTries
) -> "_Worst":
    worst = _Worst(images, labels)
    for attempt in range(tries):
        rows = (~worst.fooled).nonzero().squeeze(1)
        if not len(rows):
            break
        attempts = torch.full_like(rows, attempt)
        moved = transform(rows, attempts)
        with told_apart(predict, moved):
            logits = predict(moved)
        worst.offer(rows, attempts, moved, logits)
    return worst


class _Worst:
    """The worst transformation of each sample so far."""

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        if labels.shape != images.shape[:1]:
            raise ArgumentError(f"labels must hold one value for each of the {len(images)} images; got {len(labels)}.")
        self.images = images.clone()
        self.fooled = torch.zeros_like(labels, dtype=torch.bool)
        self.attempts = torch.zeros_like(labels, dtype=torch.int64)
        self.passes, self.tries = 0, torch.zeros_like(labels, dtype=torch.int64)
        self._labels = labels
        self._margins = torch.full_like(labels, torch.inf, dtype=torch.float32)

    def offer(self, rows: Tensor, attempts: Tensor, moved: Tensor, logits: Tensor) -> None:
        """Take over the rows, none of them fooled yet, for which this try is worse for the model."""
        _check_logits(logits, len(rows))
        self.passes += len(rows)
        self.tries[rows] += 1
        labels = self._labels[rows]
        fools = logits.argmax(dim=1) != labels
        margins = margin()(Outputs(logits), labels, None).to(self._margins.dtype)
        # A first try counts whatever its margin, which infinite logits can make infinite or NaN.
        better = fools | (margins < self._margins[rows]) | (attempts == 0)
        taken = rows[better]
        self.images[taken], self.attempts[taken] = moved[better], attempts[better]
        self.fooled[taken], self._margins[taken] = fools[better], margins[better]


def _check_logits(logits: Tensor, count: int) -> None:
    if logits.dim() != 2 or len(logits) != count:
        raise ArgumentError(
            f"predict must return one row of logits for each of {count} images; got the shape {tuple(logits.shape)}."
        )
    if bool(logits.isnan().any()):
        raise ArgumentError("predict returned NaN, on which no verdict means anything; look for what overflows.")


def _check_degrees(max_degrees: float) -> None:
    if not (max_degrees >= 0 and math.isfinite(max_degrees)):
        raise ArgumentError(f"max_degrees must be zero or positive; got {max_degrees}.")


def _check_ids(sample_ids: Tensor, images: Tensor) -> None:
    if sample_ids.shape != images.shape[:1]:
        raise ArgumentError(
            f"sample_ids must hold one value for each of the {len(images)} images; got {len(sample_ids)}."
        )
