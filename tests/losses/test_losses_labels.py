"""Smoothed labels and two labels at once."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maxmahal import MMC, MMLDA, SCE, CenterLoss, max_mahalanobis_centers
from maxmahal.errors import ArgumentError
from maxmahal.losses import LOSSES
from maxmahal.models import Head

CENTERS = max_mahalanobis_centers(4, 6)


def numbers() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(9, 6, generator=generator), torch.arange(9) % 4


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_smoothed_labels_are_the_mean_over_the_true_class_and_all(smoothing: float) -> None:
    features, labels = numbers()
    for head in (
        SCE(num_classes=4, feature_dim=6, label_smoothing=smoothing),
        MMLDA(CENTERS, scale=2.0, label_smoothing=smoothing),
    ):
        losses = -head.logits(features).double().log_softmax(dim=1)
        expected = (1 - smoothing) * losses[torch.arange(9), labels] + smoothing * losses.mean(dim=1)
        torch.testing.assert_close(head.per_sample(features, labels).double(), expected, rtol=1e-5, atol=1e-5)
        assert (head.quadratic_logits is None) == (smoothing > 0)


def test_without_smoothing_a_head_has_no_new_attribute() -> None:
    """Fingerprints of models hash a head's attributes: those of older models must stay."""
    assert "label_smoothing" not in vars(SCE(num_classes=4, feature_dim=6)) | vars(MMLDA(CENTERS))
    assert SCE(num_classes=4, feature_dim=6, label_smoothing=0.1).label_smoothing == 0.1
    with pytest.raises(ArgumentError, match="label_smoothing is the share"):
        SCE(num_classes=4, feature_dim=6, label_smoothing=1.0)


def head_of(name: str) -> Head:
    torch.manual_seed(0)
    kind = LOSSES[name]
    return kind(CENTERS) if name in ("mmc", "mmlda", "emc") else kind(num_classes=4, feature_dim=6)


@pytest.mark.parametrize("name", LOSSES)
def test_the_loss_of_two_labels_is_the_mean_by_their_shares(name: str) -> None:
    features, labels = numbers()
    others, shares, head = (labels + 1) % 4, torch.linspace(0, 1, 9), head_of(name)
    expected = shares * head.per_sample(features, labels) + (1 - shares) * head.per_sample(features, others)
    torch.testing.assert_close(head(features, labels, others, shares), expected.mean())
    with pytest.raises(ArgumentError, match="Labels must lie in"):
        head(features, labels, others + 4, shares)


@pytest.mark.usefixtures("unchecked")
def test_two_labels_need_one_share_per_sample() -> None:
    features, labels = numbers()
    for wrong in ((labels, torch.ones(9, 1)), (labels, None), (None, torch.ones(9))):
        with pytest.raises(ArgumentError, match="Mixed images need both others and shares, one value per sample; got"):
            head_of("mmc")(features, labels, *wrong)


@given(st.floats(0, 1))
def test_mmc_with_two_labels_pulls_to_the_point_between_their_centers(share: float) -> None:
    between = share * CENTERS[:1] + (1 - share) * CENTERS[1:2]
    leaf = between.clone().requires_grad_()
    loss = MMC(CENTERS)(leaf, torch.tensor([0]), torch.tensor([1]), torch.tensor([share]))
    (gradient,) = torch.autograd.grad(loss, leaf)
    assert gradient.abs().max() < 1e-5


def test_moving_centers_follow_the_first_label() -> None:
    features, labels = numbers()
    one, two = (CenterLoss(num_classes=4, feature_dim=6) for _ in range(2))
    two.load_state_dict(one.state_dict())
    one(features, labels)
    two(features, labels, (labels + 1) % 4, torch.full((9,), 0.5))
    assert torch.equal(one.centers, two.centers)


def test_heads_state_their_divergence() -> None:
    assert {name for name in LOSSES if head_of(name).divergence == "features"} == {"mmc", "emc"}
