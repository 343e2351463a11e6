"""The interface of a training method."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.attacks import Linf
from maxmahal.models import Classifier


@dataclass(frozen=True)
class Batch:
    """One training batch; ``random_seed`` differs between epochs, so a sample gets a new random start in each."""

    images: Float[Tensor, "n c h w"]
    labels: Int[Tensor, " n"]
    sample_ids: Int[Tensor, " n"]
    random_seed: int
    draws: Mapping[str, Tensor] = field(default_factory=dict)
    """The random numbers that the method drew, one row per sample."""


@dataclass(frozen=True)
class Adversary:
    """The threat of adversarial training; PGD-10 under it also selects the best checkpoint."""

    threat: Linf
    step_size: float


@runtime_checkable
class TrainingMethod(Protocol):
    """A training method: standard, adversarial, TRADES, pairing."""

    @property
    def adversary(self) -> Adversary | None:
        """The threat and step size, or None for standard training."""

    def draw(self, batch: Batch, num_classes: int) -> dict[str, Tensor]:
        """All random numbers of ``loss``; drawn before it, so that they can differ when a recorded step is replayed."""

    def loss(self, model: Classifier, batch: Batch) -> Float[Tensor, ""]:
        """The scalar to minimise: a fixed sequence of tensor operations without synchronisation."""
