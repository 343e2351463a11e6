"""What a way of training must offer the loop."""

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
    """What the method drew for it, one row a sample."""


@dataclass(frozen=True)
class Adversary:
    """The attack a robust method trains against; its PGD-10 form also picks the best checkpoint."""

    threat: Linf
    step_size: float


@runtime_checkable
class Method(Protocol):
    """A way of training: standard, adversarial, TRADES, pairing."""

    @property
    def adversary(self) -> Adversary | None:
        """What the model is trained against, or None for standard training."""

    def draw(self, batch: Batch, num_classes: int) -> dict[str, Tensor]:
        """All random numbers that ``loss`` will use: what is drawn before it can differ in a step that is replayed."""

    def loss(self, model: Classifier, batch: Batch) -> Float[Tensor, ""]:
        """The scalar to minimise on this batch: a fixed sequence of tensor operations, nothing read back."""
