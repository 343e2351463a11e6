import copy
import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from maxmahal.attacks import Linf, fgsm, pgd
from maxmahal.errors import ArgumentError
from maxmahal.imports import integration

THREAT = Linf(0.1)


@pytest.fixture
def metric(library: Callable[[str], ModuleType]) -> Any:
    """The class."""
    library("torchmetrics")
    return integration("torchmetrics").RobustAccuracy


class Threshold(nn.Module):
    """Class 1 if the one pixel is above a half: robust at 0.1 exactly if it is farther than that from it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, images: Tensor) -> Tensor:
        value = self.weight * (images.flatten(1) - 0.5)
        return torch.cat([-value, value], dim=1)


IMAGES = torch.tensor([0.1, 0.35, 0.45, 0.55, 0.7, 0.9])[:, None, None, None]
LABELS = torch.tensor([0, 0, 0, 1, 1, 0])  # the last is wrong without an attack


def test_it_counts_what_the_attack_leaves(metric: Any) -> None:
    counted = metric(Threshold().eval(), THREAT, steps=10)
    counted.update(IMAGES[:4], LABELS[:4])
    counted.update(IMAGES[4:], LABELS[4:])
    assert counted.compute() == 3 / 6
    counted.reset()
    assert counted(IMAGES[:1], LABELS[:1]) == 1


def test_it_is_what_the_attack_says(metric: Any) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).eval()
    images, labels = torch.rand(40, 1, 4, 4), torch.arange(40) % 3
    alone = pgd(model, images, labels, threat=THREAT, steps=5, seed=3, sample_ids=torch.arange(40))
    counted = metric(model, THREAT, steps=5, seed=3)
    for start in (0, 13):
        counted.update(images[start : start + 13], labels[start : start + 13])
    counted.update(images[26:], labels[26:])
    assert counted.compute() == pytest.approx(alone.accuracy)
    assert metric(model, THREAT, attack=fgsm)(images, labels) >= counted.compute()


def test_samples_keep_their_numbers_over_batches(metric: Any) -> None:
    seen: list[int] = []

    def spy(model: Any, images: Tensor, labels: Tensor, *, threat: Linf, seed: int, sample_ids: Tensor) -> Any:
        seen.extend(sample_ids.tolist())
        return pgd(model, images, labels, threat=threat, steps=1, seed=seed, sample_ids=sample_ids)

    counted = metric(Threshold().eval(), THREAT, attack=spy)
    for chosen in (slice(4), slice(4, None)):
        counted.update(IMAGES[chosen], LABELS[chosen])
    assert seen == [*range(6)]


def test_a_model_in_training_is_left_as_it_was(metric: Any) -> None:
    model = nn.Sequential(nn.Dropout(0.5), Threshold()).train()
    counted = metric(model, THREAT, steps=3)
    with torch.inference_mode():  # as in the validation of a trainer
        counted.update(IMAGES.clone(), LABELS.clone())
    assert counted.compute() == 3 / 6
    assert model.training
    assert model[0].training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not list(counted.parameters())
    assert not counted.state_dict()


def test_it_can_be_copied_and_pickled(metric: Any) -> None:
    counted = metric(Threshold().eval(), THREAT, steps=3)
    counted.update(IMAGES, LABELS)
    assert copy.deepcopy(counted).compute() == pickle.loads(pickle.dumps(counted)).compute() == 3 / 6


def test_a_wrong_setting_is_told_at_once(metric: Any) -> None:
    with pytest.raises(ArgumentError, match="no setting 'step'; did you mean 'steps'"):
        metric(Threshold(), THREAT, step=3)


def test_images_that_are_normalised_are_refused(metric: Any) -> None:
    with pytest.raises(ArgumentError, match=r"\[0, 1\]"):
        metric(Threshold(), THREAT).update(IMAGES * 3 - 1, LABELS)
