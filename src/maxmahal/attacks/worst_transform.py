"""The worst of several random transformations of each image.

Each sample keeps the first transformation that fools the model, and is not tried again; a sample that none of them
fools keeps the one with the smallest margin. The unchanged image is not among them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.attacks.checks import check_images, check_model
from maxmahal.attacks.model_outputs import check_answers, check_logits_of, model_errors, predicted_classes
from maxmahal.attacks.objectives import MARGIN, Outputs
from maxmahal.attacks.oracle import judge
from maxmahal.attacks.result import Passes, Result, Spent
from maxmahal.attacks.threats import ANY_BOUNDS
from maxmahal.random import content_ids, derive

# (rows [m], number of the try for each of them [m]) -> one value or image for each row
OfTries = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, repr=False)
class Transformed(Result):
    """What was found for each sample."""

    tries: Int[Tensor, " n"] = field(kw_only=True)
    """How many transformations of it were tried."""
    attempts: Int[Tensor, " n"] = field(kw_only=True)
    """The number of the one that was kept."""
    angles: Float[Tensor, " n"] | None = field(default=None, kw_only=True)
    """The rotation of each image in degrees, for rotations."""


@torch.no_grad()
def worst_of(
    model: Callable[[Tensor], Tensor],
    images: Tensor,
    labels: Tensor,
    tries: int,
    transform: OfTries,
) -> Transformed:
    """Try after try on the samples that are still correct; at the end the model judges in float32."""
    worst = _Worst(images, labels)
    for attempt in range(tries):
        rows = (~worst.fooled).nonzero().squeeze(1)
        if not len(rows):
            break
        attempts = torch.full_like(rows, attempt)
        moved = transform(rows, attempts)
        with model_errors(model, moved):
            logits = model(moved)
        check_logits_of(logits, len(rows))
        check_answers(predicted_classes(logits))
        worst.offer(rows, attempts, moved, logits)
    predictions = judge(model, worst.images).predictions
    looks = worst.tries + 1
    total = int(looks.sum())
    return Transformed(
        worst.images,
        predictions,
        predictions != labels,
        None,
        Passes(total, 0, total),
        spent=Spent(worst.tries, looks, torch.zeros_like(looks), looks),
        tries=worst.tries,
        attempts=worst.attempts,
    )


def checked_ids(
    model: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor, sample_ids: Tensor | None
) -> Int[Tensor, " n"]:
    """The ids of the samples, given or from their pixels, if the model can take the images."""
    check_images(images, labels, sample_ids, ANY_BOUNDS)
    check_model(model, images)
    return content_ids(images, labels) if sample_ids is None else sample_ids


def ids_of_tries(sample_ids: Int[Tensor, " n"], attempts: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """The sample's own id for its first try, so that more tries only add to a single transformation."""
    return torch.where(attempts == 0, sample_ids, derive(sample_ids, attempts))


class _Worst:
    """The worst transformation of each sample so far."""

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images = images.clone()
        self.fooled = torch.zeros_like(labels, dtype=torch.bool)
        self.attempts = torch.zeros_like(labels, dtype=torch.int64)
        self.tries = torch.zeros_like(labels, dtype=torch.int64)
        self._labels = labels
        self._margins = torch.full_like(labels, torch.inf, dtype=torch.float32)

    def offer(self, rows: Tensor, attempts: Tensor, moved: Tensor, logits: Tensor) -> None:
        """Take over the rows, none of them fooled yet, for which this try is worse for the model."""
        self.tries[rows] += 1
        labels = self._labels[rows]
        fools = logits.argmax(dim=1) != labels
        margins = MARGIN(Outputs(logits), labels, None).to(self._margins.dtype)
        better = fools | (margins < self._margins[rows]) | (attempts == 0)
        taken = rows[better]
        self.images[taken], self.attempts[taken] = moved[better], attempts[better]
        self.fooled[taken], self._margins[taken] = fools[better], margins[better]
