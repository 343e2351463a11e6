"""Attacks on a model that watches its own uncertainty: one that does not know of it, and one that hides from it."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.attacks import Engine, Linf, apgd, custom
from maxmahal.attacks.objectives import Objective, Outputs, margin
from maxmahal.attacks.result import Attacked
from maxmahal.models import Classifier, Head
from maxmahal.uncertainty.scores import Score

STEPS = 50


def evading(score: Score, head: Head) -> Objective:
    """First across the boundary, then as certain as possible: the margin where the model is right, else the score.

    One gradient at a time: added up, whichever is steeper would drown the other, and which one that is depends on the
    scale of the logits. A score is squashed below zero, so that any wrong answer is better than any right one.
    """

    def value(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        gap = margin()(outputs, labels, targets)
        unsure = score(head, outputs)
        return torch.where(gap >= 0, gap, unsure / (1 + unsure.abs()) - 1)

    return custom(value, name=f"evading-{score.name}")


def ignore_detector(
    model: Classifier,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    sample_ids: Int[Tensor, " n"],
    *,
    epsilon: float | str,
    seed: int,
    steps: int = STEPS,
) -> Attacked:
    """The usual attack, which is content as soon as the model is wrong."""
    return apgd(
        model,
        images,
        labels,
        objective=margin(),
        threat=Linf(epsilon),
        steps=steps,
        seed=seed,
        sample_ids=sample_ids,
    )


def evade_detector(
    model: Classifier,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    sample_ids: Int[Tensor, " n"],
    *,
    score: Score,
    epsilon: float | str,
    seed: int,
    steps: int = STEPS,
) -> Attacked:
    """Every step is taken, for a wrong answer is only the beginning; of those met the most certain one is kept."""
    return apgd(
        model,
        images,
        labels,
        objective=evading(score, model.head),
        threat=Linf(epsilon),
        steps=steps,
        seed=seed,
        sample_ids=sample_ids,
        engine=Engine(early_exit=False),
    )
