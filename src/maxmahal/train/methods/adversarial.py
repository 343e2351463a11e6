"""Adversarial training (Madry et al.) on images crafted by PGD; with logit pairing on the features (appendix B.2)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from maxmahal.attacks import Outputs
from maxmahal.errors import SettingsError
from maxmahal.losses import pairing_loss
from maxmahal.models import Classifier
from maxmahal.train.methods.base import Batch
from maxmahal.train.methods.craft import PGDCraft
from maxmahal.train.methods.trades import output_divergence


@dataclass(frozen=True)
class AdversarialTraining(PGDCraft):
    """``mix`` is the weight of the adversarial images; the rest goes to the clean ones. 1 is the paper's setting."""

    mix: float = 1.0
    joint: bool = False
    """With ``mix`` below 1: both kinds of images pass the network in one batch and share its batch-norm statistics."""
    distill: float = 0.0
    """The share of the loss on adversarial images, at the end of the training, that compares them with the output of
    the averaged weights for the clean image instead of the label; it rises from 0 in proportion to the steps."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.mix <= 1:
            raise SettingsError(
                f"method.mix must lie in (0, 1]; got {self.mix}. For clean training use method 'standard'."
            )
        if not 0 <= self.distill < 1:
            raise SettingsError(f"method.distill is a share of the loss, in [0, 1); got {self.distill}.")

    @property
    def has_teacher(self) -> bool:
        """With ``distill``."""
        return self.distill > 0

    def draw(self, batch: Batch, num_classes: int) -> dict[str, Tensor]:
        """What crafting needs and, with ``distill``, its share in this step."""
        draws = super().draw(batch, num_classes)
        if self.has_teacher:
            share = self.distill * min(1.0, batch.progress)
            draws["taught"] = torch.full_like(batch.labels, share, dtype=torch.float32)
        return draws

    def loss(self, model: Classifier, batch: Batch) -> Float[Tensor, ""]:
        """mix·L(x*, y) + (1 - mix)·L(x, y)."""
        attacked = self.attacked(model, batch)
        if self.mix == 1:
            return self._on_attacked(model, model.features(attacked), batch)
        if self.joint:
            features, clean = model.features(torch.cat([attacked, batch.images])).chunk(2)
        else:
            features, clean = model.features(attacked), model.features(batch.images)
        on_clean: Tensor = model.head(clean, *batch.targets)
        return self.mix * self._on_attacked(model, features, batch) + (1 - self.mix) * on_clean

    def _on_attacked(self, model: Classifier, features: Float[Tensor, "n d"], batch: Batch) -> Float[Tensor, ""]:
        """(1 - share)·L(x*, y) + share·D(x, x*), D from the averaged weights' output to this one."""
        own: Tensor = model.head(features, *batch.targets)
        if batch.teacher is None:
            return own
        outputs, share = Outputs(model.head.logits(features), features), batch.draws["taught"][0]
        return (1 - share) * own + share * output_divergence(batch.teacher, outputs, model.head.divergence).mean()


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
