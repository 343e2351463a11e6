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

    def __len__(self) -> int:
        return len(self.images)

    def towards(self, targets: Int[Tensor, " n"]) -> "Samples":
        """The same samples with other targets."""
        return replace(self, targets=targets)

    def select(self, rows: Int[Tensor, " m"]) -> "Samples":
        """Some of the samples, in this order."""
        targets = None if self.targets is None else self.targets[rows]
        return Samples(self.images[rows], self.labels[rows], self.fled[rows], targets, self.ids[rows], self.goal)

    def slice(self, start: int, stop: int) -> "Samples":
        """Neighbouring samples, without a copy."""
        part = slice(start, stop)
        targets = None if self.targets is None else self.targets[part]
        return Samples(self.images[part], self.labels[part], self.fled[part], targets, self.ids[part], self.goal)

    def repeat(self, times: int) -> "Samples":
        """Each sample ``times`` over, its copies side by side."""
        return self.select(torch.arange(len(self), device=self.images.device).repeat_interleave(times))

    def join(self, others: "Samples") -> "Samples":
        """These samples and then the others."""
        targets = None
        if self.targets is not None and others.targets is not None:
            targets = torch.cat([self.targets, others.targets])
        return Samples(
            torch.cat([self.images, others.images]),
            torch.cat([self.labels, others.labels]),
            torch.cat([self.fled, others.fled]),
            targets,
            torch.cat([self.ids, others.ids]),
            self.goal,
        )

    def ranks(self, predictions: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        """How well each prediction serves the attacker: 0 right, ``FOOLED`` or ``HIT``."""
        fooled = (predictions != self.labels).long()
        if self.targets is None or self.goal == FOOLED:
            return fooled
        return torch.where(predictions == self.targets, HIT, fooled)
