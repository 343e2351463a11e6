"""Adversarial images for a training step."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from maxmahal.attacks import OBJECTIVES, Linf, Objective, Outputs, craft, parse_epsilon
from maxmahal.attacks.pgd import random_start
from maxmahal.attacks.threats import Images, StepSize, per_sample
from maxmahal.errors import SettingsError, check_choice
from maxmahal.models import Classifier, eval_mode
from maxmahal.random import integers
from maxmahal.train.methods.base import Adversary, Batch, TrainingMethod


@dataclass(frozen=True)
class CraftBudget(TrainingMethod):
    """Epsilon and steps of crafting; the defaults are the paper's PGD-10."""

    steps: int = 10
    epsilon: str | float = "8/255"
    step_size: str | float = "2/255"
    noise: float = 1.0
    """The size of the random start in units of epsilon. Above 1, perturbations end at the range of pixels and no longer
    at epsilon: with 2 and one step of epsilon this is N-FGSM, whose noise prevents catastrophic overfitting."""
    start: Literal["random", "last"] = "random"
    """Where crafting starts: at a random point of the ball, or at the image's perturbation of the last epoch."""
    ramp: float = 0.0
    """The share of the training over which epsilon, with the random start and the step size, rises to its value."""

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise SettingsError(f"method.steps must be at least 1; got {self.steps}.")
        epsilon = parse_epsilon(self.epsilon, "method.epsilon")
        parse_epsilon(self.step_size, "method.step_size")
        if not 0 < self.noise * epsilon <= 1:
            raise SettingsError(
                f"method.noise must be positive, and noise times epsilon at most 1 because images lie in [0, 1]; got "
                f"{self.noise}. 1 is the ball of PGD, 2 is N-FGSM."
            )
        if self.start == "last" and self.noise > 1:
            raise SettingsError(
                f"method.start = 'last' stays inside epsilon, so method.noise must be at most 1; got {self.noise}."
            )
        if not 0 <= self.ramp <= 1:
            raise SettingsError(f"method.ramp is a share of the training, in [0, 1]; got {self.ramp}.")

    @property
    def adversary(self) -> Adversary:
        """The threat and the step size; the large steps of an attack with few of them are none for PGD-10."""
        threat, step_size = Linf(self.epsilon), parse_epsilon(self.step_size)
        return Adversary(threat, step_size if step_size <= threat.radius / 2 else threat.radius / 4)

    @property
    def reused(self) -> Linf | None:
        """The ball of the perturbations from which the next epoch goes on, or None if it starts anew."""
        return Linf(self.epsilon) if self.start == "last" else None

    def draw(self, batch: Batch, num_classes: int) -> dict[str, Tensor]:  # noqa: ARG002
        """The start and, with ``ramp``, the share of epsilon that it has reached."""
        share = min(1.0, batch.progress / self.ramp) if self.ramp else 1.0
        size = share * self.noise
        ball = Linf(self.epsilon if size == 1 else size * self.adversary.threat.radius)
        start = random_start(batch.images, ball, batch.random_seed, batch.sample_ids)
        if batch.last is not None:
            start = batch.last.start(batch.images, Linf(share * self.adversary.threat.radius), start)
        draws = {"start": start}
        if self.ramp:
            draws["share"] = torch.full_like(batch.images[:, 0, 0, 0], share)
        return draws

    def attacked(self, model: Classifier, batch: Batch) -> Float[Tensor, "n c h w"]:
        """The images that were crafted beforehand, or new ones."""
        return self.craft(model, batch) if batch.attacked is None else batch.attacked

    def descend(
        self, model: Classifier, batch: Batch, labels: Int[Tensor, " n"], objective: Objective
    ) -> Float[Tensor, "n c h w"]:
        """The last iterate of PGD from the batch's start."""
        draws = batch.draws or self.draw(batch, model.head.num_classes)
        epsilon = self.epsilon if self.noise <= 1 else 1.0
        return craft(
            model,
            batch.images,
            labels,
            objective=objective,
            threat=RampedLinf(epsilon, share=draws["share"]) if self.ramp else Linf(epsilon),
            steps=self.steps,
            step_size=parse_epsilon(self.step_size),
            seed=batch.random_seed,
            sample_ids=batch.sample_ids,
            targets=draws.get("targets"),
            start=draws["start"],
            compiler=getattr(model.backbone, "compiler", None),
        )


@dataclass(frozen=True)
class RampedLinf(Linf):
    """A share of the ball and of the step size, as a tensor: a recorded step reads its current value."""

    share: Float[Tensor, " n"] = field(kw_only=True)

    def project(self, images: Images, moved: Images) -> Images:
        """The nearest allowed image."""
        low, high = self.bounds
        radius = per_sample(self.share * self.radius)
        return moved.clamp((images - radius).clamp_min_(low), (images + radius).clamp_max_(high))

    def descend(self, moved: Images, gradient: Images, step_size: StepSize) -> Images:
        """Every pixel moves by the share of the step size, against the sign of its gradient."""
        return super().descend(moved, gradient, self.share * step_size)


@contextmanager
def crafting(model: nn.Module, mode: Literal["eval", "train"] = "eval") -> Iterator[None]:
    """The mode for crafting, with parameters that need no gradients, which a compiled backward pass would compute."""
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
        check_choice("method.objective", self.objective, OBJECTIVES, SettingsError)

    def draw(self, batch: Batch, num_classes: int) -> dict[str, Tensor]:
        """The start and, with ``targeted``, the target classes."""
        targets = {"targets": random_targets(batch, num_classes, self.targets)} if self.targeted else {}
        return super().draw(batch, num_classes) | targets

    def craft(self, model: Classifier, batch: Batch) -> Float[Tensor, "n c h w"]:
        """The last iterate of PGD."""
        with crafting(model, self.craft_mode):
            objective, labels = OBJECTIVES[self.objective](model.head), batch.labels
            if self.label_source == "predicted":
                with torch.no_grad():
                    labels = model(batch.images).argmax(dim=1)
            elif batch.mixed is not None:
                objective = mixed_objective(objective, *batch.mixed)
            return self.descend(model, batch, labels, objective)


def random_targets(batch: Batch, num_classes: int, policy: Literal["other", "any"]) -> Int[Tensor, " n"]:
    """A random target class per sample: any class, or any other than the label."""
    if batch.mixed is not None:
        raise SettingsError("method.targeted needs images with one label each; set data.cutmix = 0.")
    if policy == "any":
        return integers(batch.sample_ids, num_classes, "target", batch.random_seed)
    if num_classes < 2:
        raise SettingsError("method.targeted needs at least two classes; the data has one.")
    offset = 1 + integers(batch.sample_ids, num_classes - 1, "target", batch.random_seed)
    return (batch.labels + offset) % num_classes


def mixed_objective(objective: Objective, others: Int[Tensor, " n"], shares: Float[Tensor, " n"]) -> Objective:
    """The objective for images mixed from two: the mean over both labels by their shares."""

    def value(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        return shares * objective(outputs, labels, targets) + (1 - shares) * objective(outputs, others, targets)

    return value
