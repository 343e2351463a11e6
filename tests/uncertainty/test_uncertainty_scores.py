"""The scores: what they are on known logits, that they can be descended, and what an attack that knows them does."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from maxmahal import MMC, SCE, Classifier, max_mahalanobis_centers
from maxmahal.attacks.objectives import Outputs, model_outputs
from maxmahal.data import ImageData, load_dataset
from maxmahal.errors import ArgumentError
from maxmahal.train import Settings, load_model, train_model
from maxmahal.uncertainty import SCORES, DetectorAttack, auroc, evading, scores_for

pytestmark = pytest.mark.usefixtures("unchecked")
BY_NAME = {score.name: score for score in SCORES}


@pytest.fixture(scope="module")
def head() -> MMC:
    return MMC(max_mahalanobis_centers(3, 4))


def at(head: MMC, features: torch.Tensor) -> Outputs:
    return Outputs(head.logits(features), features)


def test_at_a_center_everything_is_certain_and_between_two_nothing_is(head: MMC) -> None:
    features = torch.stack([head.centers[0], 0.5 * (head.centers[0] + head.centers[1])])
    for score in SCORES:
        certain, unsure = score(head, at(head, features))
        assert certain < unsure, score.name
    assert BY_NAME["loss"](head, at(head, features))[0] == 0
    assert BY_NAME["gap"](head, at(head, features))[1].item() == pytest.approx(0, abs=1e-4)


def test_scores_on_known_logits() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0]], dtype=torch.float64)
    outputs, head = Outputs(logits), SCE(num_classes=3, feature_dim=2)
    p = math.exp(2) / (math.exp(2) + math.e + 1)
    assert BY_NAME["softmax"](head, outputs).item() == pytest.approx(math.log((1 - p) / p))
    assert BY_NAME["energy"](head, outputs).item() == pytest.approx(-math.log(math.exp(2) + math.e + 1))
    assert BY_NAME["gap"](head, outputs).item() == -1


def test_softmax_keeps_samples_apart_whose_confidence_rounds_to_one() -> None:
    outputs = Outputs(torch.tensor([[200.0, 0.0], [300.0, 0.0]]))
    first, second = BY_NAME["softmax"](SCE(num_classes=2, feature_dim=2), outputs)
    assert outputs.logits.softmax(dim=1).amax(dim=1).tolist() == [1, 1]
    assert first > second


def test_the_loss_is_a_score_of_its_own_only_with_centers(head: MMC) -> None:
    assert [score.name for score in scores_for(head)] == ["loss", "gap", "softmax", "energy"]
    assert [score.name for score in scores_for(SCE(num_classes=3, feature_dim=4))] == ["gap", "softmax", "energy"]
    with pytest.raises(ArgumentError, match="needs features"):
        BY_NAME["loss"](head, Outputs(torch.zeros(1, 3)))


def test_the_evading_objective_puts_any_wrong_answer_below_any_right_one(head: MMC) -> None:
    near, far = head.centers[1], 0.3 * head.centers[1]
    features = torch.stack([head.centers[0], 0.51 * head.centers[0] + 0.49 * head.centers[1], far, near])
    values = evading(BY_NAME["loss"], head)(at(head, features), torch.zeros(4, dtype=torch.int64), None)
    assert values.tolist() == sorted(values.tolist(), reverse=True)
    assert values[1] > 0 > values[2]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Classifier, ImageData]:
    from maxmahal.train import load_settings

    folder = tmp_path_factory.mktemp("run") / "mmc"
    train_model(load_settings("digits-short-mmc", ["train.epochs=6"]), folder)
    return load_model(folder / "last.safetensors"), load_dataset("digits", "test").first(120)


@pytest.mark.parametrize("name", ["loss", "softmax"])
def test_an_attack_that_knows_the_score_is_harder_to_detect(trained: tuple[Classifier, ImageData], name: str) -> None:
    model, data = trained
    images, score = data.float_images(), BY_NAME[name]
    attack = DetectorAttack("0.15", steps=20)
    ignoring, hiding = attack(model, data), attack(model, data, score)

    def detected(attacked: object) -> float:
        with torch.no_grad():
            found = score(model.head, model_outputs(model, attacked.images))[attacked.fooled]  # type: ignore[attr-defined]
            return auroc(found.numpy(), score(model.head, model_outputs(model, images)).numpy())

    assert float(hiding.fooled.double().mean()) > 0.8
    assert detected(hiding) < detected(ignoring) - 0.1
    assert float((hiding.images - images).abs().max()) <= 0.15 + 1e-6


def test_scores_leave_no_gradient_behind(trained: tuple[Classifier, ImageData]) -> None:
    model, data = trained
    DetectorAttack(0.1, steps=2)(model, data.first(4), BY_NAME["energy"])
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_same_sample_alone_is_attacked_alike(trained: tuple[Classifier, ImageData]) -> None:
    model, data = trained
    few = data.first(6)
    attack, score = DetectorAttack("0.15", seed=3, steps=5), BY_NAME["loss"]
    whole = attack(model, few, score)
    single = attack(model, few.select(torch.tensor([4])), score)
    assert torch.allclose(single.images[0], whole.images[4], atol=1e-5)


def test_finite(tiny_settings: Callable[..., Settings], tmp_path: Path) -> None:
    """Scores of a model that was hardly trained are numbers."""
    train_model(tiny_settings("digits-sce", "train.epochs=1"), tmp_path / "sce")
    model = load_model(tmp_path / "sce" / "last.safetensors")
    outputs = model_outputs(model, torch.rand(5, 1, 8, 8))
    assert all(np.isfinite(score(model.head, outputs).detach().numpy()).all() for score in scores_for(model.head))
