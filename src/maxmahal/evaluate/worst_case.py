"""Accuracy under several attacks, and the worst case per sample over all of them."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from maxmahal.attacks import (
    Linf,
    Objective,
    Prepared,
    cross_entropy,
    gaussian_noise,
    margin,
    own_loss,
    pgd,
    prepare,
    random_rotation,
)
from maxmahal.data import ImageData
from maxmahal.evaluate.strongest import Effort, attack_hard
from maxmahal.models import Classifier, eval_mode

CLEAN, STRONGEST = "clean", "strongest"


@dataclass(frozen=True)
class Budget:
    """How hard to attack."""

    threat: Linf
    steps: int = 50
    step_size: float = 0.01
    noise_std: float = 0.1
    max_degrees: float = 30.0
    seed: int = 0
    effort: Effort = field(default_factory=lambda: Effort(steps=40, queries=400))
    """Of the strongest attacks, one after the other on whoever is left."""


@dataclass(frozen=True)
class Verdicts:
    """For every attack, which samples the model still gets right."""

    white_box: dict[str, Bool[Tensor, " n"]]
    """Attacks within one threat, the clean images among them; their conjunction is the worst case."""
    transforms: dict[str, Bool[Tensor, " n"]]
    """Threats of their own, which do not count towards the worst case."""

    @property
    def worst_case(self) -> Bool[Tensor, " n"]:
        """Right under every attack of the threat."""
        return torch.stack(list(self.white_box.values())).all(dim=0)

    def accuracies(self) -> dict[str, float]:
        """Share of the samples that stay right, by attack, and in the worst case."""
        columns = {**self.white_box, "worst case": self.worst_case, **self.transforms}
        return {name: float(right.double().mean()) for name, right in columns.items()}


def evaluate_quickly(model: Classifier, data: ImageData, budget: Budget) -> Verdicts:
    """PGD with the model's own loss, cross-entropy and the margin; the strongest attacks at hand; and transforms."""
    with eval_mode(model):
        images = data.float_images()
        fast = prepare(model)
        white_box = {CLEAN: is_right(model, images, data)}
        objectives = {"own loss": own_loss(model.head), "cross-entropy": cross_entropy(), "margin": margin()}
        for name, objective in objectives.items():
            white_box[name] = _survivors(fast, data, budget, objective)
        strongest = attack_hard(
            fast,
            images,
            data.labels,
            threat=budget.threat,
            seed=budget.seed,
            effort=budget.effort,
            sample_ids=data.sample_ids,
        )
        white_box[STRONGEST] = ~strongest.fooled
        ids, seed = data.sample_ids, budget.seed
        noisy = gaussian_noise(images, std=budget.noise_std, seed=seed, sample_ids=ids)
        turned = random_rotation(images, max_degrees=budget.max_degrees, seed=seed, sample_ids=ids)
        transforms = {"noise": is_right(model, noisy, data), "rotation": is_right(model, turned, data)}
    return Verdicts(white_box, transforms)


def is_right(model: Classifier, images: Float[Tensor, "n c h w"], data: ImageData) -> Bool[Tensor, " n"]:
    """Whether the model's prediction is the true label."""
    with torch.no_grad():
        right: Tensor = model(images).argmax(dim=1) == data.labels
    return right


def _survivors(model: Prepared, data: ImageData, budget: Budget, objective: Objective) -> Bool[Tensor, " n"]:
    attacked = pgd(
        model,
        data.float_images(),
        data.labels,
        objective=objective,
        threat=budget.threat,
        steps=budget.steps,
        step_size=budget.step_size,
        seed=budget.seed,
        sample_ids=data.sample_ids,
    )
    return ~attacked.fooled
