"""Adversarial images for a training step."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from maxmahal.attacks import OBJECTIVES, Linf, Objective, craft, parse_epsilon
from maxmahal.attacks.pgd import random_start
from maxmahal.errors import SettingsError, did_you_mean
from maxmahal.models import Classifier, eval_mode
from maxmahal.random import integers
from maxmahal.train.methods.base import Adversary, Batch


@dataclass(frozen=True)
class CraftBudget:
    """Epsilon and steps of crafting; the defaults are the paper's PGD-10."""

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
        """The threat and the step size of the attack."""
        return Adversary(Linf(self.epsilon), parse_epsilon(self.step_size))

    def draw(self, batch: Batch, num_classes: int) -> dict[str, Tensor]:  # noqa: ARG002
        """The random start."""
        return {"start": random_start(batch.images, self.adversary.threat, batch.random_seed, batch.sample_ids)}

    def descend(
        self, model: Classifier, batch: Batch, labels: Int[Tensor, " n"], objective: Objective
    ) -> Float[Tensor, "n c h w"]:
        """The last iterate of PGD from the batch's random start."""
        draws = batch.draws or self.draw(batch, model.head.num_classes)
        return craft(
            model,
            batch.images,
            labels,
            objective=objective,
            threat=self.adversary.threat,
            steps=self.steps,
            step_size=self.adversary.step_size,
            seed=batch.random_seed,
            sample_ids=batch.sample_ids,
            targets=draws.get("targets"),
            start=draws["start"],
        )


@contextmanager
def crafting(model: nn.Module, mode: Literal["eval", "train"] = "eval") -> Iterator[None]:
    """Put the model into the mode for crafting, with parameters that need no gradients.

    A compiled backward pass would compute those gradients in every step although they are not used.
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
    """Untargeted or targeted PGD, for methods that train on its images."""

    objective: str = "own"
    targeted: bool = False
    targets: Literal["other", "any"] = "other"
    """With ``targeted``: a random wrong class, or any class as the released code draws it."""
    label_source: Literal["true", "predicted"] = "true"
    """Untargeted: attack the true label, or the model's prediction as the released code does."""
    craft_mode: Literal["eval", "train"] = "eval"
    """Whether batch norm uses its running statistics while crafting."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.objective not in OBJECTIVES:
            raise SettingsError(
                f"method.objective = '{self.objective}' is unknown; {did_you_mean(self.objective, OBJECTIVES)}"
            )

    def draw(self, batch: Batch, num_classes: int) -> dict[str, Tensor]:
        """The random start and, with ``targeted``, the target classes."""
        targets = {"targets": random_targets(batch, num_classes, self.targets)} if self.targeted else {}
        return super().draw(batch, num_classes) | targets

    def craft(self, model: Classifier, batch: Batch) -> Float[Tensor, "n c h w"]:
        """The last iterate of PGD from a random start."""
        with crafting(model, self.craft_mode):
            return self.descend(model, batch, self._labels(model, batch), OBJECTIVES[self.objective](model.head))

    def _labels(self, model: Classifier, batch: Batch) -> Int[Tensor, " n"]:
        if self.label_source == "true":
            return batch.labels
        with torch.no_grad():
            predictions: Tensor = model(batch.images).argmax(dim=1)
        return predictions


def random_targets(batch: Batch, num_classes: int, policy: Literal["other", "any"]) -> Int[Tensor, " n"]:
    """A random target class per sample: any class, or any other than the label."""
    if policy == "any":
        return integers(batch.sample_ids, num_classes, "target", batch.random_seed)
    offset = 1 + integers(batch.sample_ids, num_classes - 1, "target", batch.random_seed)
    return (batch.labels + offset) % num_classes
