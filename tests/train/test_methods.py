"""Ways of training: each computes the loss it names, on images inside its threat."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from maxmahal import MMC, SCE, Classifier, max_mahalanobis_centers
from maxmahal.train.methods import AdversarialPairing, AdversarialTraining, Batch, Standard, Trades
from maxmahal.train.methods.craft import PGDCraft, random_targets

EPSILON = 0.1


@pytest.fixture
def batch() -> Batch:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(40, 1, 4, 4, generator=generator)
    return Batch(images, torch.arange(40) % 3, torch.arange(40), random_seed=5)


def classifier(*, softmax: bool = False) -> Classifier:
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
    return Classifier(backbone, SCE(num_classes=3, feature_dim=4) if softmax else MMC(max_mahalanobis_centers(3, 4)))


def budget(**changes: Any) -> dict[str, Any]:
    return {"steps": 5, "epsilon": EPSILON, "step_size": 0.04} | changes


def test_standard_is_the_heads_loss(batch: Batch) -> None:
    model = classifier().eval()
    expected = 0.5 * (model.features(batch.images) - model.head.centers[batch.labels]).square().sum(1).mean()  # type: ignore[index]
    torch.testing.assert_close(Standard().loss(model, batch), expected)


def test_crafted_images_stay_inside_and_raise_the_loss(batch: Batch) -> None:
    model = classifier().train()
    statistics = model.backbone[2].running_mean.clone()  # type: ignore[index,union-attr]
    crafted = PGDCraft(**budget()).craft(model, batch)
    assert (crafted - batch.images).abs().max() <= EPSILON + 1e-6
    assert crafted.min() >= 0
    assert crafted.max() <= 1
    assert model.training
    assert torch.equal(statistics, model.backbone[2].running_mean)  # type: ignore[index,union-attr]
    model.eval()
    before, after = (model.head.per_sample(model.features(x), batch.labels) for x in (batch.images, crafted))
    assert (after > before).double().mean() > 0.95
    assert all(parameter.grad is None for parameter in model.parameters())


def test_crafting_in_train_mode_moves_batch_norm(batch: Batch) -> None:
    model = classifier().train()
    statistics = model.backbone[2].running_mean.clone()  # type: ignore[index,union-attr]
    PGDCraft(**budget(craft_mode="train")).craft(model, batch)
    assert not torch.equal(statistics, model.backbone[2].running_mean)  # type: ignore[index,union-attr]


def test_targeted_crafting_approaches_its_target(batch: Batch) -> None:
    model = classifier().eval()
    method = PGDCraft(**budget(targeted=True))
    targets = random_targets(batch, 3, "other")
    before = model.head.per_sample(model.features(batch.images), targets)
    after = model.head.per_sample(model.features(method.craft(model, batch)), targets)
    assert (after < before).double().mean() > 0.95


def test_target_policies() -> None:
    batch = Batch(torch.zeros(3000, 1, 1, 1), torch.arange(3000) % 3, torch.arange(3000), random_seed=1)
    other, anything = random_targets(batch, 3, "other"), random_targets(batch, 3, "any")
    assert not (other == batch.labels).any()
    assert 0.3 < (anything == batch.labels).double().mean() < 0.37
    for targets in (other, anything):
        assert torch.bincount(targets, minlength=3).min() > 900


def test_the_predicted_label_can_be_fled_from(batch: Batch) -> None:
    model = classifier().eval()
    predictions = model(batch.images).argmax(1)
    wrong = predictions != batch.labels
    assert wrong.any()
    crafted = PGDCraft(**budget(label_source="predicted")).craft(model, batch)
    before = model.head.per_sample(model.features(batch.images), predictions)
    after = model.head.per_sample(model.features(crafted), predictions)
    assert (after > before)[wrong].all()


@pytest.mark.parametrize("mix", [1.0, 0.25])
def test_adversarial_training_mixes(mix: float, batch: Batch) -> None:
    model = classifier().eval()
    method = AdversarialTraining(**budget(mix=mix))
    crafted = method.craft(model, batch)
    expected = mix * model.loss(crafted, batch.labels) + (1 - mix) * model.loss(batch.images, batch.labels)
    torch.testing.assert_close(method.loss(model, batch), expected)


def test_pairing_adds_the_squared_distance(batch: Batch) -> None:
    model = classifier().eval()
    method = AdversarialPairing(**budget(weight=0.3))
    crafted = method.craft(model, batch)
    clean, moved = model.features(batch.images), model.features(crafted)
    pairing = (clean - moved).square().sum(1).mean()
    halves = 0.5 * (model.loss(batch.images, batch.labels) + model.loss(crafted, batch.labels))
    torch.testing.assert_close(method.loss(model, batch), halves + 0.3 * pairing)


@pytest.mark.parametrize("divergence", ["kl", "features"])
def test_trades_is_the_clean_loss_plus_the_divergence(divergence: str, batch: Batch) -> None:
    model = classifier(softmax=divergence == "kl").eval()
    method = Trades(**budget(weight=3.0, divergence=divergence))
    crafted = method.craft(model, batch)
    assert (crafted - batch.images).abs().max() <= EPSILON + 1e-6
    if divergence == "kl":
        clean = model(batch.images).softmax(1)
        moved = (clean * (clean.log() - F.log_softmax(model(crafted), dim=1))).sum(1)
    else:
        moved = 0.5 * (model.features(crafted) - model.features(batch.images)).square().sum(1)
    expected = model.loss(batch.images, batch.labels) + 3.0 * moved.mean()
    torch.testing.assert_close(method.loss(model, batch), expected, rtol=1e-4, atol=1e-5)
    assert moved.mean() > 1e-4


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"steps": 0}, "method.steps must be at least 1"),
        ({"epsilon": 8.0}, "Did you mean 8/255"),
        ({"objective": "marginal"}, "did you mean 'margin'"),
        ({"mix": 0.0}, "use method 'standard'"),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        AdversarialTraining(**changes)
