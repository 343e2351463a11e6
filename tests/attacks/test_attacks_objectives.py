"""What attacks minimise, against the paper's four adaptive objectives (appendix B.4)."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from maxmahal.attacks import OBJECTIVES, Outputs, cross_entropy, margin, model_outputs, own_loss
from maxmahal.centers import max_mahalanobis_centers
from maxmahal.errors import ArgumentError
from maxmahal.losses import MMC, SCE
from maxmahal.models import Classifier


def example(seed: int, equal_norms: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels, targets that are not the labels, and centers."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 5, 6)
    targets = (labels + rng.integers(1, 5, 6)) % 5
    centers = rng.normal(size=(5, 3)) * 3
    if equal_norms:
        centers *= 4 / np.linalg.norm(centers, axis=1, keepdims=True)
    return 3 * rng.normal(size=(6, 3)), labels, targets, centers


def paper_loss(z: np.ndarray, y: int, centers: np.ndarray) -> float:
    return float(((z - centers[y]) ** 2).sum() / 2)


def outputs_of(head: MMC, z: np.ndarray) -> Outputs:
    features = torch.tensor(z)
    return Outputs(head.logits(features), features)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), equal_norms=st.booleans())
def test_the_margin_is_the_papers_second_objective(seed: int, equal_norms: bool) -> None:
    z, labels, targets, centers = example(seed, equal_norms)
    head = MMC(torch.tensor(centers))
    outputs = outputs_of(head, z)
    untargeted, targeted = [], []
    for point, y, t in zip(z, labels, targets, strict=True):
        wrong = [k for k in range(5) if k != y]
        runner_up = min(wrong, key=lambda k: paper_loss(point, k, centers))  # argmax of h is argmin of the distance
        untargeted.append(paper_loss(point, runner_up, centers) - paper_loss(point, y, centers))
        targeted.append(paper_loss(point, t, centers) - paper_loss(point, y, centers))
    y, t = torch.tensor(labels), torch.tensor(targets)
    torch.testing.assert_close(margin()(outputs, y, None), torch.tensor(untargeted, dtype=torch.float64))
    torch.testing.assert_close(margin()(outputs, y, t), torch.tensor(targeted, dtype=torch.float64))


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_margin_is_linear_in_the_features(seed: int) -> None:
    """z·(μ_y - μ_t) - ½(‖μ_y‖² - ‖μ_t‖²)."""
    z, labels, targets, centers = example(seed, equal_norms=False)
    own, other = centers[labels], centers[targets]
    expected = (z * (own - other)).sum(axis=1) - ((own**2).sum(axis=1) - (other**2).sum(axis=1)) / 2
    actual = margin()(outputs_of(MMC(torch.tensor(centers)), z), torch.tensor(labels), torch.tensor(targets))
    torch.testing.assert_close(actual, torch.tensor(expected))


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_the_own_loss_is_the_papers_first_objective(scale: float) -> None:
    z, labels, targets, centers = example(0, equal_norms=False)
    head = MMC(torch.tensor(centers), scale=scale)
    outputs, y, t = outputs_of(head, z), torch.tensor(labels), torch.tensor(targets)
    untargeted = [-scale * paper_loss(point, label, centers) for point, label in zip(z, labels, strict=True)]
    targeted = [scale * paper_loss(point, target, centers) for point, target in zip(z, targets, strict=True)]
    torch.testing.assert_close(own_loss(head)(outputs, y, None), torch.tensor(untargeted, dtype=torch.float64))
    torch.testing.assert_close(own_loss(head)(outputs, y, t), torch.tensor(targeted, dtype=torch.float64))


def test_cross_entropy_pushes_away_from_the_label_or_towards_the_target() -> None:
    logits = np.random.default_rng(0).normal(size=(4, 3))
    y, t = torch.tensor([0, 1, 2, 0]), torch.tensor([1, 2, 0, 2])
    log_shares = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    outputs = Outputs(torch.tensor(logits))
    torch.testing.assert_close(cross_entropy()(outputs, y, None), torch.tensor(log_shares[np.arange(4), y]))
    torch.testing.assert_close(cross_entropy()(outputs, y, t), torch.tensor(-log_shares[np.arange(4), t]))


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_margin_is_negative_exactly_when_the_model_is_wrong(seed: int) -> None:
    logits = torch.tensor(np.random.default_rng(seed).normal(size=(8, 4)))
    labels = torch.tensor(np.random.default_rng(seed + 1).integers(0, 4, 8))
    values = margin()(Outputs(logits), labels, None)
    assert torch.equal(values < 0, logits.argmax(dim=1) != labels)


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_at_a_center_cross_entropy_has_no_gradient_in_float32_and_the_margin_has(scale: float) -> None:
    """The reason the margin exists: exp(-111) is 0 in float32, so the softmax's gradient is exactly 0 there."""
    centers = max_mahalanobis_centers(10, 16, 10.0).float()
    head, labels = MMC(centers, scale=scale), torch.arange(10)
    norms = {}
    for name, objective in (("softmax", cross_entropy()), ("margin", margin()), ("own", own_loss(head))):
        z = centers.clone().requires_grad_()
        value = objective(Outputs(head.logits(z), z), labels, None)
        (gradient,) = torch.autograd.grad(value.sum(), z)
        norms[name] = gradient.norm(dim=1)
    assert torch.equal(norms["softmax"], torch.zeros(10))
    assert torch.equal(norms["own"], torch.zeros(10))
    assert (norms["margin"] > scale * 10).all()


class Plain(nn.Module):
    """A model without a features method."""

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1)


def test_a_plain_model_has_logits_only_and_no_loss_of_its_own() -> None:
    images, labels = torch.rand(2, 1, 1, 3), torch.tensor([0, 1])
    outputs = model_outputs(Plain(), images)
    assert torch.equal(outputs.logits, images.flatten(1))
    assert outputs.features is None
    with pytest.raises(ArgumentError, match=r"own_loss needs the model's features; attack a maxmahal\.Classifier"):
        own_loss(SCE(3, 3))(outputs, labels, None)


def test_a_classifier_shows_its_features() -> None:
    model = Classifier(nn.Flatten(), SCE(4, 3))
    images = torch.rand(2, 1, 1, 3)
    outputs = model_outputs(model, images)
    assert torch.equal(outputs.features, images.flatten(1))
    assert torch.equal(outputs.logits, model(images))


def test_objectives_have_names_for_settings_files() -> None:
    z, labels, targets, centers = example(3, equal_norms=True)
    head = MMC(torch.tensor(centers))
    by_hand = {"own": own_loss(head), "cross-entropy": cross_entropy(), "margin": margin()}
    assert set(OBJECTIVES) == set(by_hand)
    for name, objective in by_hand.items():
        for goal in (None, torch.tensor(targets)):
            named = OBJECTIVES[name](head)(outputs_of(head, z), torch.tensor(labels), goal)
            assert torch.equal(named, objective(outputs_of(head, z), torch.tensor(labels), goal))
