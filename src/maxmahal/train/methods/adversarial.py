"""Adversarial training (Madry et al.) on images crafted by PGD; with logit pairing on the features (appendix B.2)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from maxmahal.errors import SettingsError
from maxmahal.losses import pairing_loss
from maxmahal.models import Classifier
from maxmahal.train.methods.base import Batch
from maxmahal.train.methods.craft import PGDCraft


@dataclass(frozen=True)
class AdversarialTraining(PGDCraft):
    """``mix`` is the weight of the adversarial images; the rest goes to the clean ones. 1 is the paper's setting."""

    mix: float = 1.0
    joint: bool = False
    """With ``mix`` below 1: both kinds of images pass the network in one batch and share its batch-norm statistics."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.mix <= 1:
            raise SettingsError(
                f"method.mix must lie in (0, 1]; got {self.mix}. For clean training use method 'standard'."
            )

    def loss(self, model: Classifier, batch: Batch) -> Float[Tensor, ""]:
        """mix·L(x*, y) + (1 - mix)·L(x, y)."""
        attacked = self.attacked(model, batch)
        if self.mix == 1:
            return model.loss(attacked, *batch.targets)
        if not self.joint:
            on_attacked = model.loss(attacked, *batch.targets)
            return self.mix * on_attacked + (1 - self.mix) * model.loss(batch.images, *batch.targets)
        both = model.features(torch.cat([attacked, batch.images])).chunk(2)
        losses: list[Tensor] = [model.head(features, *batch.targets) for features in both]
        return self.mix * losses[0] + (1 - self.mix) * losses[1]


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
