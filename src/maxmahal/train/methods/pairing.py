"""Adversarial training with logit pairing on the features (appendix B.2)."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from maxmahal.errors import SettingsError
from maxmahal.losses import pairing_loss
from maxmahal.models import Classifier
from maxmahal.train.methods.base import Batch
from maxmahal.train.methods.craft import PGDCraft


@dataclass(frozen=True)
class AdversarialPairing(PGDCraft):
    """Half the loss on clean images, half on adversarial ones, plus ``weight``·‖z(x) - z(x*)‖²."""

    weight: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weight < 0:
            raise SettingsError(f"method.weight must not be negative; got {self.weight}.")

    def loss(self, model: Classifier, batch: Batch) -> Float[Tensor, ""]:
        """½L(x, y) + ½L(x*, y) + weight·‖z(x) - z(x*)‖²."""
        features = model.features(batch.images)
        adversarial = model.features(self.attacked(model, batch))
        both = 0.5 * model.head(features, *batch.targets) + 0.5 * model.head(adversarial, *batch.targets)
        return both + self.weight * pairing_loss(features, adversarial).mean()
