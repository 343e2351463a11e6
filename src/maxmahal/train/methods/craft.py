"""Crafting adversarial images for a training step."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from maxmahal.attacks import OBJECTIVES, Linf, craft, parse_epsilon
from maxmahal.attacks.pgd import random_start
from maxmahal.errors import SettingsError, did_you_mean
from maxmahal.models import Classifier, eval_mode
from maxmahal.random import integers
from maxmahal.train.methods.base import Adversary, Batch


@dataclass(frozen=True)
class CraftBudget:
    """How far and how long crafting may go; the defaults are the paper's PGD-10."""

    steps: int = 10
    epsilon: str | float = "8/255"
    step_size: str | float = "2/255"

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise SettingsError(f"method.steps must be at least 1; got {self.steps}.")
        parse_epsilon(self.epsilon, "method.epsilon")
        parse_epsilon(self.step_size, "method.step_size")

    @property
    def adversary(self) -> Adversary:
        """The threat and the step of the crafting attack."""
        return Adversary(Linf(self.epsilon), parse_epsilon(self.step_size))

    def draw(self, batch: Batch, num_classes: int) -> dict[str, Tensor]:  # noqa: ARG002
        """Where crafting starts."""
        return {"start": random_start(batch.images, self.adversary.threat, batch.random_seed, batch.sample_ids)}


@contextmanager
def crafting(model: nn.Module, mode: Literal["eval", "train"] = "eval") -> Iterator[None]:
    """The model as crafting needs it: in its mode, parameters without gradients.

    Nobody asks for those gradients, but a compiled backward pass would compute them all the same in every step.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    with eval_mode(model) if mode == "eval" else nullcontext():
        try:
            for parameter in trained:
                parameter.requires_grad_(False)
            yield
        finally:
            for parameter in trained:
                parameter.requires_grad_(True)


@dataclass(frozen=True)
class PGDCraft(CraftBudget):
    """Crafting against the label or towards a random target, for the methods that train on PGD's images."""

    objective: str = "own"
    targeted: bool = False
    targets: Literal["other", "any"] = "other"
    """With ``targeted``: a random wrong class, or any class as the released code draws it."""
    label_source: Literal["true", "predicted"] = "true"
    """Untargeted: flee the true label, or the model's own prediction as the released code does."""
    craft_mode: Literal["eval", "train"] = "eval"
    """Whether batch norm uses its running statistics while crafting."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.objective not in OBJECTIVES:
            raise SettingsError(
                f"method.objective = '{self.objective}' is unknown; {did_you_mean(self.objective, OBJECTIVES)}"
            )

    def draw(self, batch: Batch, num_classes: int) -> dict[str, Tensor]:
        """Where crafting starts and, with ``targeted``, where it goes."""
        targets = {"targets": random_targets(batch, num_classes, self.targets)} if self.targeted else {}
        return super().draw(batch, num_classes) | targets

    def craft(self, model: Classifier, batch: Batch) -> Float[Tensor, "n c h w"]:
        """PGD's last iterate from a random start."""
        draws = batch.draws or self.draw(batch, model.head.num_classes)
        with crafting(model, self.craft_mode):
            return craft(
                model,
                batch.images,
                self._labels(model, batch),
                objective=OBJECTIVES[self.objective](model.head),
                threat=self.adversary.threat,
                steps=self.steps,
                step_size=self.adversary.step_size,
                seed=batch.random_seed,
                sample_ids=batch.sample_ids,
                targets=draws.get("targets"),
                start=draws["start"],
            )

    def _labels(self, model: Classifier, batch: Batch) -> Int[Tensor, " n"]:
        if self.label_source == "true":
            return batch.labels
        with torch.no_grad():
            predictions: Tensor = model(batch.images).argmax(dim=1)
        return predictions


def random_targets(batch: Batch, num_classes: int, policy: Literal["other", "any"]) -> Int[Tensor, " n"]:
    """A class for each sample to be pushed to: any, or any but its own."""
    if policy == "any":
        return integers(batch.sample_ids, num_classes, "target", batch.random_seed)
    offset = 1 + integers(batch.sample_ids, num_classes - 1, "target", batch.random_seed)
    return (batch.labels + offset) % num_classes
