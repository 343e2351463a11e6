"""Ways of training: each computes the loss it names, on images inside its threat."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from maxmahal import MMC, SCE, Classifier, max_mahalanobis_centers
from maxmahal.attacks import model_outputs
from maxmahal.errors import SettingsError
from maxmahal.train.methods import AdversarialPairing, AdversarialTraining, Batch, Trades, TrainingMethod
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
    torch.testing.assert_close(TrainingMethod().loss(model, batch), expected)


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


def test_one_class_has_no_other_to_aim_at(batch: Batch) -> None:
    with pytest.raises(SettingsError, match=r"method\.targeted needs at least two classes"):
        random_targets(batch, 1, "other")


def test_mixed_images_have_no_class_to_aim_at(batch: Batch) -> None:
    mixed = replace(batch, mixed=(batch.labels, torch.ones(len(batch.labels))))
    with pytest.raises(SettingsError, match=r"one label each; set data\.cutmix = 0"):
        random_targets(mixed, 3, "other")


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


def test_clean_and_attacked_images_in_one_batch_share_their_statistics(batch: Batch) -> None:
    method = AdversarialTraining(**budget(mix=0.7, joint=True))
    model, other = classifier(), classifier()
    crafted = method.craft(other, batch)
    together = other.features(torch.cat([crafted, batch.images]))
    losses = other.head.per_sample(together, batch.labels.repeat(2))
    loss = method.loss(model, batch)
    torch.testing.assert_close(loss, 0.7 * losses[:40].mean() + 0.3 * losses[40:].mean())
    apart = AdversarialTraining(**budget(mix=0.7)).loss(classifier(), batch)
    assert (loss - apart).abs() > 1e-4
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, other.state_dict()[name], msg=name)


@pytest.mark.parametrize("softmax", [False, True])
def test_distilled_targets_lie_between_the_label_and_the_averaged_weights_output(softmax: bool, batch: Batch) -> None:
    model, average = classifier(softmax=softmax).eval(), classifier(softmax=softmax).eval()
    average.backbone[1].weight.data.mul_(1.5)  # type: ignore[index,union-attr]
    method = AdversarialTraining(**budget(distill=0.8))
    batch = replace(batch, step=4, steps=10, teacher=model_outputs(average, batch.images))
    batch = replace(batch, draws=method.draw(batch, 3))  # after half of the training: a share of 0.4
    features = model.features(method.craft(model, batch))
    if softmax:
        targets = 0.6 * F.one_hot(batch.labels, 3) + 0.4 * average(batch.images).softmax(dim=1)
        expected = -(targets * model.head.logits(features).log_softmax(dim=1)).sum(dim=1).mean()
    else:
        centers = model.head.centers[batch.labels]  # type: ignore[index]
        targets = 0.6 * centers + 0.4 * average.features(batch.images)
        expected = 0.5 * (features - targets).square().sum(dim=1).mean()
    # The loss differs by what does not depend on the model; the gradients are the same.
    parameters = list(model.parameters())
    ours, theirs = (
        torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True, materialize_grads=True)
        for loss in (method.loss(model, batch), expected)
    )
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)
    assert any(one.abs().max() > 0.01 for one in ours)


def test_images_that_were_crafted_beforehand_are_used(batch: Batch) -> None:
    model = classifier().eval()
    for method in (AdversarialTraining(**budget()), AdversarialPairing(**budget()), Trades(**budget())):
        crafted = replace(batch, attacked=method.craft(model, batch))
        torch.testing.assert_close(method.loss(model, crafted), method.loss(model, batch))
        elsewhere = replace(batch, attacked=1 - batch.images)
        assert (method.loss(model, elsewhere) - method.loss(model, batch)).abs() > 1e-4


@pytest.mark.parametrize(("step", "share"), [(0, 0.25), (1, 0.5), (3, 1.0), (7, 1.0)])
def test_epsilon_and_the_step_size_rise_over_their_share_of_the_training(step: int, share: float, batch: Batch) -> None:
    model = classifier().eval()
    now = replace(batch, step=step, steps=8)
    ramped = AdversarialTraining(**budget(ramp=0.5))
    smaller = AdversarialTraining(**budget(epsilon=EPSILON * share, step_size=0.04 * share))
    torch.testing.assert_close(ramped.craft(model, now), smaller.craft(model, now))
    largest = (ramped.craft(model, now) - batch.images).abs().max()
    assert 0.9 * EPSILON * share < largest <= EPSILON * share + 1e-6
    assert ramped.adversary == AdversarialTraining(**budget()).adversary


def test_wide_noise_and_one_step_are_n_fgsm(batch: Batch) -> None:
    model = classifier().eval()
    method = AdversarialTraining(steps=1, epsilon=EPSILON, step_size=EPSILON, noise=2.0)
    start = method.draw(batch, 3)["start"]
    assert 1.8 * EPSILON < (start - batch.images).abs().max() <= 2 * EPSILON + 1e-6
    leaf = start.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model.head.per_sample(model.features(leaf), batch.labels).sum(), leaf)
    torch.testing.assert_close(method.craft(model, batch), (start + EPSILON * gradient.sign()).clamp(0, 1))
    assert (method.craft(model, batch) - batch.images).abs().max() > 2 * EPSILON
    assert method.adversary.step_size == EPSILON / 4, "PGD-10 on validation images needs smaller steps"
    for step_size, kept in ((0.04, 0.04), (0.06, EPSILON / 4)):
        assert AdversarialTraining(**budget(steps=2, step_size=step_size)).adversary.step_size == kept


def test_mixed_images_are_attacked_and_trained_with_both_labels(batch: Batch) -> None:
    model = classifier().eval()
    others, shares = (batch.labels + 1) % 3, torch.linspace(0, 1, 40)
    mixed = replace(batch, mixed=(others, shares))
    method = AdversarialTraining(**budget())

    def loss(images: torch.Tensor) -> torch.Tensor:
        features = model.features(images)
        pair = (model.head.per_sample(features, labels) for labels in (batch.labels, others))
        return shares * next(pair) + (1 - shares) * next(pair)

    crafted = method.craft(model, mixed)
    assert (loss(crafted) > loss(batch.images)).double().mean() > 0.95
    torch.testing.assert_close(method.loss(model, mixed), loss(crafted).mean())
    torch.testing.assert_close(TrainingMethod().loss(model, mixed), loss(batch.images).mean())
    first = method.craft(model, replace(batch, mixed=(others, torch.ones(40))))
    torch.testing.assert_close(first, method.craft(model, batch))


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


def test_trades_compares_as_the_head_states(batch: Batch) -> None:
    for softmax, stated in ((True, "kl"), (False, "features")):
        model = classifier(softmax=softmax).eval()
        own, named = (Trades(**budget(divergence=each)).loss(model, batch) for each in ("own", stated))
        assert torch.equal(own, named)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"noise": 0.0}, "method.noise must be positive"),
        ({"noise": 20.0, "epsilon": 0.1}, "method.noise must be positive"),
        ({"ramp": 1.5}, "method.ramp is a share"),
        ({"steps": 0}, "method.steps must be at least 1"),
        ({"epsilon": 8.0}, "Did you mean 8/255"),
        ({"objective": "marginal"}, "did you mean 'margin'"),
        ({"mix": 0.0}, "use method 'standard'"),
        ({"distill": 1.0}, "method.distill is a share of the loss"),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        AdversarialTraining(**changes)
