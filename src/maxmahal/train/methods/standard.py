"""Standard training: the head's loss on clean images."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from maxmahal.models import Classifier
from maxmahal.train.methods.base import Adversary, Batch


@dataclass(frozen=True)
class Standard:
    """Training without an adversary."""

    @property
    def adversary(self) -> Adversary | None:
        """None."""
        return None

    def draw(self, batch: Batch, num_classes: int) -> dict[str, Tensor]:  # noqa: ARG002
        """Nothing."""
        return {}

    def craft(self, model: Classifier, batch: Batch) -> Float[Tensor, "n c h w"]:  # noqa: ARG002
        """The images as they are."""
        return batch.images

    def loss(self, model: Classifier, batch: Batch) -> Float[Tensor, ""]:
        """The head's mean loss."""
        return model.loss(batch.images, *batch.targets)
