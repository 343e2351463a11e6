"""TRADES (Zhang et al.): the loss on clean images plus the divergence of the output under attack."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from maxmahal.attacks import Outputs, model_outputs
from maxmahal.errors import SettingsError
from maxmahal.losses import pairing_loss
from maxmahal.models import Classifier
from maxmahal.train.methods.base import Batch
from maxmahal.train.methods.craft import CraftBudget, crafting

Divergence = Literal["own", "kl", "features"]


@dataclass(frozen=True)
class Trades(CraftBudget):
    """L(x, y) + weight·D(x, x*), where x* maximises D.

    ``divergence="kl"`` compares softmax outputs; ``"features"`` is ½‖z(x*) - z(x)‖²; ``"own"`` is what the head states.
    """

    weight: float = 6.0
    divergence: Divergence = "kl"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weight < 0:
            raise SettingsError(f"method.weight must not be negative; got {self.weight}.")

    def loss(self, model: Classifier, batch: Batch) -> Float[Tensor, ""]:
        """L(x, y) + weight·D(x, x*)."""
        adversarial = self.attacked(model, batch)
        clean, moved = model_outputs(model, batch.images), model_outputs(model, adversarial)
        natural: Tensor = model.head(clean.features, *batch.targets)
        return natural + self.weight * output_divergence(clean, moved, self._divergence(model)).mean()

    def craft(self, model: Classifier, batch: Batch) -> Float[Tensor, "n c h w"]:
        """The last iterate of PGD on the divergence."""
        with crafting(model):
            with torch.no_grad():
                fixed = model_outputs(model, batch.images)

            def closeness(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:  # noqa: ARG001
                return -output_divergence(fixed, outputs, self._divergence(model))

            return self.descend(model, batch, batch.labels, closeness)

    def _divergence(self, model: Classifier) -> Divergence:
        return model.head.divergence if self.divergence == "own" else self.divergence


def output_divergence(clean: Outputs, moved: Outputs, divergence: Divergence) -> Float[Tensor, " n"]:
    """The divergence of the outputs: KL(p(x) ‖ p(x*)), or ½‖z(x*) - z(x)‖²."""
    if divergence == "features":
        if clean.features is None or moved.features is None:
            raise SettingsError("method.divergence = 'features' needs a model with features; use 'kl'.")
        return 0.5 * pairing_loss(clean.features, moved.features)
    log_clean, log_moved = clean.logits.log_softmax(dim=1), moved.logits.log_softmax(dim=1)
    return F.kl_div(log_moved, log_clean, reduction="none", log_target=True).sum(dim=1)
