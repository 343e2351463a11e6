"""The samples under attack, and everything that belongs to each of them."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

FOOLED, HIT = 1, 2


@dataclass(frozen=True)
class Samples:
    """Rows that travel together through the engine."""

    images: Float[Tensor, "n c h w"]
    labels: Int[Tensor, " n"]
    """The truth, by which success is judged."""
    fled: Int[Tensor, " n"]
    """The labels that the objective sees: the truth, or the model's own predictions."""
    targets: Int[Tensor, " n"] | None
    ids: Int[Tensor, " n"]
    goal: int
    """``FOOLED``: any wrong class will do; ``HIT``: the target, and nothing else."""
    rows: Int[Tensor, " n"] | None = None
    """The place of each sample among those of the run, by which its costs are counted; None where nobody counts."""

    def __len__(self) -> int:
        return len(self.images)

    def towards(self, targets: Int[Tensor, " n"]) -> "Samples":
        """The same samples with other targets."""
        return replace(self, targets=targets)

    def select(self, rows: Int[Tensor, " m"]) -> "Samples":
        """Some of the samples, in this order."""
        return _take(self, rows)

    def slice(self, start: int, stop: int) -> "Samples":
        """Neighbouring samples, without a copy."""
        return _take(self, slice(start, stop))

    def join(self, others: "Samples") -> "Samples":
        """These samples and then the others."""
        return Samples(
            torch.cat([self.images, others.images]),
            torch.cat([self.labels, others.labels]),
            torch.cat([self.fled, others.fled]),
            _both(self.targets, others.targets),
            torch.cat([self.ids, others.ids]),
            self.goal,
            _both(self.rows, others.rows),
        )

    def ranks(self, predictions: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        """How well each prediction serves the attacker: 0 right, ``FOOLED`` or ``HIT``."""
        fooled = (predictions != self.labels).long()
        if self.targets is None or self.goal == FOOLED:
            return fooled
        return torch.where(predictions == self.targets, HIT, fooled)


def _take(samples: Samples, part: Tensor | slice) -> Samples:
    targets = None if samples.targets is None else samples.targets[part]
    rows = None if samples.rows is None else samples.rows[part]
    labels, fled, ids = samples.labels[part], samples.fled[part], samples.ids[part]
    return Samples(samples.images[part], labels, fled, targets, ids, samples.goal, rows)


def _both(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    return None if first is None or second is None else torch.cat([first, second])
