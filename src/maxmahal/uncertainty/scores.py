"""Scores of uncertainty, functions of a head and ``Outputs``: larger for a less certain prediction."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from maxmahal.attacks.objectives import Outputs, other_logits, pick
from maxmahal.errors import ArgumentError
from maxmahal.models import Head


@dataclass(frozen=True)
class Score:
    """One measure of uncertainty."""

    name: str
    title: str
    function: Callable[[Head, Outputs], Tensor]
    needs_centers: bool = False

    def __call__(self, head: Head, outputs: Outputs) -> Float[Tensor, " n"]:
        """Larger means less certain."""
        return self.function(head, outputs)


def class_loss(head: Head, outputs: Outputs) -> Float[Tensor, " n"]:
    """The loss of the predicted class, the paper's measure of uncertainty (Sec. 3.3)."""
    if outputs.features is None:
        raise ArgumentError("The loss of the predicted class needs features; give a maxmahal.Classifier.")
    return head.predicted_class_loss(outputs.features)


def runner_up(logits: Float[Tensor, "n l"]) -> Float[Tensor, " n"]:
    """Minus the gap between the two best logits."""
    best, second = logits.topk(2, dim=1).values.unbind(dim=1)
    return second - best


def softmax_odds(logits: Float[Tensor, "n l"]) -> Float[Tensor, " n"]:
    """log((1 - p)/p) of the largest softmax p: the same order as 1 - p, without ties from rounding."""
    best = logits.argmax(dim=1)
    return torch.logsumexp(other_logits(logits, best), dim=1) - pick(logits, best)


SCORES = (
    Score("loss", "loss of the predicted class", class_loss, needs_centers=True),
    Score("gap", "gap to the second class", lambda _, outputs: runner_up(outputs.logits)),
    Score("softmax", "max softmax", lambda _, outputs: softmax_odds(outputs.logits)),
    # -log Σ exp(h_k) (Liu et al. 2020): small where any class fits well.
    Score("energy", "energy", lambda _, outputs: -torch.logsumexp(outputs.logits, dim=1)),
)
"""Every score of uncertainty that is measured."""


def scores_for(head: Head) -> tuple[Score, ...]:
    """Those that say something of their own: without centers the loss orders samples as max softmax does."""
    return tuple(score for score in SCORES if not score.needs_centers or hasattr(head, "centers"))
