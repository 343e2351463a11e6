"""Accuracy under several attacks, and the worst case per sample over all of them."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from maxmahal.attacks import (
    Linf,
    Objective,
    cross_entropy,
    gaussian_noise,
    margin,
    own_loss,
    pgd,
    random_rotation,
)
from maxmahal.data import ImageData
from maxmahal.models import Classifier, eval_mode

CLEAN = "clean"


@dataclass(frozen=True)
class Budget:
    """How hard to attack."""

    threat: Linf
    steps: int = 50
    step_size: float = 0.01
    noise_std: float = 0.1
    max_degrees: float = 30.0
    seed: int = 0
    restarts: int = 2
    """Random starts of the strongest attack, the margin towards each class; only survivors are attacked again."""


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


def evaluate_quickly(model: Classifier, data: ImageData, budget: Budget, batch_size: int = 500) -> Verdicts:
    """PGD with the model's own loss, cross-entropy and the margin (nearest class, then each class), and transforms.

    Every candidate is projected again and re-scored by the model in float32 against the true label.
    """
    with eval_mode(model):
        parts = [
            _evaluate_batch(model, data.select(indices), budget)
            for indices in torch.split(torch.arange(len(data)), batch_size)
        ]
    return Verdicts(
        {name: torch.cat([part.white_box[name] for part in parts]) for name in parts[0].white_box},
        {name: torch.cat([part.transforms[name] for part in parts]) for name in parts[0].transforms},
    )


def _evaluate_batch(model: Classifier, data: ImageData, budget: Budget) -> Verdicts:
    images = data.float_images()
    objectives = {"own loss": own_loss(model.head), "cross-entropy": cross_entropy(), "margin": margin()}
    white_box = {CLEAN: is_right(model, images, data)}
    for name, objective in objectives.items():
        white_box[name] = _survivors(model, data, budget, objective, target_shift=None)
    white_box["margin, each class"] = _survivors_of_every_target(model, data, budget)
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


def _survivors(
    model: Classifier, data: ImageData, budget: Budget, objective: Objective, target_shift: int | None
) -> Bool[Tensor, " n"]:
    """Which samples stay right under PGD, towards the class ``target_shift`` after their own where that is given."""
    images = data.float_images()
    candidates = pgd(
        model,
        images,
        data.labels,
        objective=objective,
        threat=budget.threat,
        steps=budget.steps,
        step_size=budget.step_size,
        seed=budget.seed,
        sample_ids=data.sample_ids,
        targets=None if target_shift is None else (data.labels + target_shift) % data.num_classes,
    )
    return is_right(model, budget.threat.project(images, candidates), data)


def _survivors_of_every_target(model: Classifier, data: ImageData, budget: Budget) -> Bool[Tensor, " n"]:
    """Which samples stay right whatever class they are pushed to; a sample that fell needs no further target."""
    alive = is_right(model, data.float_images(), data)
    for restart in range(budget.restarts):
        another = replace(budget, seed=budget.seed + restart)
        for shift in range(1, data.num_classes):
            remaining = alive.nonzero().squeeze(1)
            if len(remaining):
                alive[remaining] = _survivors(model, data.select(remaining), another, margin(), shift)
    return alive
