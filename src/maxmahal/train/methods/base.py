"""What a training method is given and computes; standard training."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.attacks import Linf, Outputs
from maxmahal.models import Classifier
from maxmahal.train.perturbations import LastPerturbations


@dataclass(frozen=True)
class Batch:
    """One training batch; ``random_seed`` differs between epochs, so a sample gets a new random start in each."""

    images: Float[Tensor, "n c h w"]
    labels: Int[Tensor, " n"]
    sample_ids: Int[Tensor, " n"]
    random_seed: int
    draws: Mapping[str, Tensor] = field(default_factory=dict)
    """What the method drew or scheduled for this step, one row per sample."""
    mixed: tuple[Int[Tensor, " n"], Float[Tensor, " n"]] | None = None
    """Where images are mixed from two: the second labels, and the shares of the first."""
    last: LastPerturbations | None = None
    """Where crafting starts, if perturbations are kept between epochs."""
    attacked: Float[Tensor, "n c h w"] | None = None
    """The images of ``craft``, if they were made beforehand."""
    teacher: Outputs | None = None
    """What the averaged weights give for the clean images, if the method learns from it."""
    step: int = 0
    """The number of this step in the whole training, from 0."""
    steps: int = 1
    """The steps that the schedule spans; a run that was extended goes beyond them."""

    @property
    def progress(self) -> float:
        """The share of the schedule that is done after this step."""
        return (self.step + 1) / self.steps

    @property
    def targets(self) -> tuple[Tensor, ...]:
        """What a head takes after the features."""
        return (self.labels, *(self.mixed or ()))


@dataclass(frozen=True)
class Adversary:
    """The threat of adversarial training; PGD-10 under it also selects the best checkpoint."""

    threat: Linf
    step_size: float


@dataclass(frozen=True)
class TrainingMethod:
    """Standard training, on clean images; the other methods change what it says."""

    @property
    def adversary(self) -> Adversary | None:
        """The threat and step size, or None for standard training."""
        return None

    @property
    def has_teacher(self) -> bool:
        """Whether it learns from the averaged weights as well."""
        return False

    @property
    def reused(self) -> Linf | None:
        """The ball of the perturbations from which the next epoch goes on, or None if it starts anew."""
        return None

    def draw(self, batch: Batch, num_classes: int) -> dict[str, Tensor]:  # noqa: ARG002
        """All random numbers of ``loss``; drawn before it, so that they can differ when a recorded step is replayed."""
        return {}

    def craft(self, model: Classifier, batch: Batch) -> Float[Tensor, "n c h w"]:  # noqa: ARG002
        """The images that the model is attacked with in this step; the images themselves without an attack."""
        return batch.images

    def loss(self, model: Classifier, batch: Batch) -> Float[Tensor, ""]:
        """The scalar to minimise: a fixed sequence of tensor operations without synchronisation."""
        return model.loss(batch.images, *batch.targets)
