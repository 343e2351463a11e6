"""What an attack minimises: one value a sample, passed to any attack as a plain value.

Adaptive means passing another objective. Without targets an objective pushes away from the label; with targets it pulls
towards them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from maxmahal.errors import ArgumentError
from maxmahal.models import Classifier, Head


@dataclass(frozen=True)
class Outputs:
    """What a model says about a batch; ``features`` is None for a model that has none."""

    logits: Float[Tensor, "n l"]
    features: Float[Tensor, "n d"] | None = None


@runtime_checkable
class Objective(Protocol):
    """One value a sample, to be minimised."""

    def __call__(
        self, outputs: Outputs, labels: Int[Tensor, " n"], targets: Int[Tensor, " n"] | None
    ) -> Float[Tensor, " n"]:
        """Smaller is better for the attacker."""


def model_outputs(model: nn.Module, images: Float[Tensor, "n c h w"]) -> Outputs:
    """Logits, and the features behind them where the model shows them."""
    if isinstance(model, Classifier):
        features = model.features(images)
        return Outputs(model.head.logits(features), features)
    return Outputs(model(images))


def cross_entropy() -> Objective:
    """The non-adaptive objective: -log softmax(h)_y, whose gradient can vanish in float32 on MMC."""

    def value(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        if targets is None:
            return -F.cross_entropy(outputs.logits, labels, reduction="none")
        return F.cross_entropy(outputs.logits, targets, reduction="none")

    return value


def own_loss(head: Head) -> Objective:
    """The model's own training loss; for MMC the paper's un,1 and tar,1: -L(z, y) and L(z, y_t) (appendix B.4)."""

    def value(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        if outputs.features is None:
            raise ArgumentError("own_loss needs the model's features; attack a maxmahal.Classifier, or use margin().")
        if targets is None:
            return -head.per_sample(outputs.features, labels)
        return head.per_sample(outputs.features, targets)

    return value


def margin() -> Objective:
    """h_y - max_{k≠y} h_k, or h_y - h_t; for MMC the paper's un,2 and tar,2 (appendix B.4). It never saturates."""

    def value(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        logits = outputs.logits
        true = logits.gather(1, labels[:, None]).squeeze(1)
        if targets is not None:
            return true - logits.gather(1, targets[:, None]).squeeze(1)
        others = logits.scatter(1, labels[:, None], -torch.inf)
        return true - others.amax(dim=1)

    return value


# By name, for settings files: each takes the head it is adapted to.
OBJECTIVES: dict[str, Callable[[Head], Objective]] = {
    "own": own_loss,
    "cross-entropy": lambda _: cross_entropy(),
    "margin": lambda _: margin(),
}
