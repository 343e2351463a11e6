"""Every loss against its formula in its paper, written here with numpy in float64."""

import numpy as np
import pytest
import torch
from torch import Tensor

from maxmahal.losses import (
    MMC,
    MMLDA,
    SCE,
    ArcFace,
    CosFace,
    absolute_mmc_loss,
    center_logits,
    huber_mmc_loss,
    mmc_loss,
    mmlda_loss,
    sce_loss,
)
from maxmahal.losses.angular import turned_cosines


def minus_log_softmax(logits: np.ndarray, label: int) -> float:
    return float(np.log(np.exp(logits - logits[label]).sum()))


def draws(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def same(actual: Tensor, expected: object) -> None:
    torch.testing.assert_close(actual.detach(), torch.as_tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-12)


Z = 2 * draws(0, 6, 5)
Y = np.array([0, 3, 1, 1, 2, 0])
MU = 1.5 * draws(1, 4, 5)
FEATURES, LABELS, CENTERS = torch.tensor(Z), torch.tensor(Y), torch.tensor(MU)
DISTANCES = np.sqrt(np.array([sum((z - MU[y]) ** 2) for z, y in zip(Z, Y, strict=True)]))


def test_sce_is_equation_1() -> None:
    weight, bias = draws(2, 4, 5), draws(3, 4)
    expected = [minus_log_softmax(weight @ z + bias, y) for z, y in zip(Z, Y, strict=True)]
    same(sce_loss(FEATURES, LABELS, torch.tensor(weight), torch.tensor(bias)), expected)
    head = SCE(num_classes=4, feature_dim=5).double()
    head.linear.weight.data, head.linear.bias.data = torch.tensor(weight), torch.tensor(bias)
    same(head.per_sample(FEATURES, LABELS), expected)
    same(head.logits(FEATURES), np.array([weight @ z + bias for z in Z]))


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_squared_mmc_is_equation_8(scale: float) -> None:
    expected = 0.5 * DISTANCES**2
    same(mmc_loss(FEATURES, LABELS, CENTERS), expected)
    same(MMC(CENTERS, scale=scale).per_sample(FEATURES, LABELS), scale * expected)
    assert MMC(CENTERS).scale == 1  # the paper's ½ is the default


def test_the_released_codes_mmc_has_no_half() -> None:
    same(MMC(CENTERS, scale=2.0)(FEATURES, LABELS), (DISTANCES**2).mean())
    same(MMC(CENTERS, scale=2.0).logits(FEATURES), [[-((z - mu) ** 2).sum() for mu in MU] for z in Z])


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_absolute_mmc_is_the_distance(scale: float) -> None:
    same(absolute_mmc_loss(FEATURES, LABELS, CENTERS), DISTANCES)
    same(MMC(CENTERS, form="absolute", scale=scale).per_sample(FEATURES, LABELS), scale * DISTANCES)


@pytest.mark.parametrize("scale", [1.0, 2.0])
@pytest.mark.parametrize("threshold", [1.0, float(np.median(DISTANCES)), 100.0])
def test_huber_mmc_is_quadratic_up_to_the_threshold_and_linear_beyond(threshold: float, scale: float) -> None:
    expected = np.where(threshold >= DISTANCES, 0.5 * DISTANCES**2, threshold * DISTANCES - 0.5 * threshold**2)
    same(huber_mmc_loss(FEATURES, LABELS, CENTERS, threshold), expected)
    head = MMC(CENTERS, form="huber", huber_threshold=threshold, scale=scale)
    same(head.per_sample(FEATURES, LABELS), scale * expected)


def test_huber_has_neither_step_nor_kink_at_the_threshold() -> None:
    center, direction = torch.zeros(1, 2, dtype=torch.float64), torch.tensor([[0.6, 0.8]], dtype=torch.float64)
    values, slopes = [], []
    for radius in (1.5 - 1e-7, 1.5 + 1e-7):
        z = (radius * direction).requires_grad_()
        value = huber_mmc_loss(z, torch.tensor([0]), center, threshold=1.5)
        values.append(value.item())
        slopes.append(torch.autograd.grad(value.sum(), z)[0].norm().item())
    assert values[1] - values[0] == pytest.approx(1.5 * 2e-7, rel=1e-4)
    assert slopes == pytest.approx([1.5, 1.5], rel=1e-6)


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_mmlda_is_equation_10_on_centers_of_any_length(scale: float) -> None:
    expected = [minus_log_softmax(-scale * 0.5 * ((z - MU) ** 2).sum(axis=1), y) for z, y in zip(Z, Y, strict=True)]
    same(mmlda_loss(FEATURES, LABELS, CENTERS, scale), expected)
    same(MMLDA(CENTERS, scale=scale).per_sample(FEATURES, LABELS), expected)


def test_both_written_forms_of_equation_10_agree_for_centers_of_one_length() -> None:
    mu = 10 * MU / np.linalg.norm(MU, axis=1, keepdims=True)
    inner_products = [minus_log_softmax(mu @ z, y) for z, y in zip(Z, Y, strict=True)]
    same(MMLDA(torch.tensor(mu)).per_sample(FEATURES, LABELS), inner_products)


@pytest.mark.parametrize("scale", [1.0, 2.0])
@pytest.mark.parametrize("kind", [MMC, MMLDA])
def test_logits_of_preset_centers_are_minus_half_the_squared_distances(kind: type, scale: float) -> None:
    expected = [[-scale * 0.5 * ((z - mu) ** 2).sum() for mu in MU] for z in Z]
    same(kind(CENTERS, scale=scale).logits(FEATURES), expected)
    same(scale * center_logits(FEATURES, CENTERS), expected)


def test_mmc_looks_at_the_true_classes_center_alone() -> None:
    elsewhere = CENTERS.clone()
    elsewhere[3] += 100.0
    others = LABELS != 3
    before, after = (MMC(mu).per_sample(FEATURES, LABELS) for mu in (CENTERS, elsewhere))
    assert torch.equal(before[others], after[others])
    assert not torch.equal(before[~others], after[~others])


def test_the_absolute_form_has_a_finite_gradient_at_the_center() -> None:
    for form in ("absolute", "huber", "squared"):
        z = CENTERS[LABELS].clone().requires_grad_()
        (gradient,) = torch.autograd.grad(MMC(CENTERS, form=form)(z, LABELS), z)
        assert torch.equal(gradient, torch.zeros_like(gradient))


def angles(weight: np.ndarray) -> np.ndarray:
    cosines = (Z / np.linalg.norm(Z, axis=1, keepdims=True)) @ (
        weight / np.linalg.norm(weight, axis=1, keepdims=True)
    ).T
    return np.arccos(cosines)


def test_cosface_takes_the_margin_off_the_cosine() -> None:
    weight = draws(4, 4, 5)
    head = CosFace(num_classes=4, feature_dim=5, margin=0.35, temperature=6.0).double()
    head.weight.data = torch.tensor(weight)
    logits = 6.0 * np.cos(angles(weight))
    same(head.logits(FEATURES), logits)
    expected = [minus_log_softmax(row - 6.0 * 0.35 * (np.arange(4) == y), y) for row, y in zip(logits, Y, strict=True)]
    same(head.per_sample(FEATURES, LABELS), expected)


def test_arcface_adds_the_margin_to_the_angle() -> None:
    weight = draws(4, 4, 5)
    head = ArcFace(num_classes=4, feature_dim=5, margin=0.5, temperature=6.0).double()
    head.weight.data = torch.tensor(weight)
    theta = angles(weight)
    assert (theta[np.arange(6), Y] + 0.5 < np.pi).all()
    same(head.logits(FEATURES), 6.0 * np.cos(theta))
    turned = theta + 0.5 * np.eye(4)[Y]
    expected = [minus_log_softmax(6.0 * np.cos(row), y) for row, y in zip(turned, Y, strict=True)]
    same(head.per_sample(FEATURES, LABELS), expected)


def test_arcface_keeps_falling_where_the_angle_plus_the_margin_passes_pi() -> None:
    theta = torch.linspace(0.01, np.pi - 0.01, 400, dtype=torch.float64)
    made_harder = turned_cosines(theta.cos(), 0.5)
    below = theta < np.pi - 0.5
    torch.testing.assert_close(made_harder[below], (theta + 0.5).cos()[below])
    assert (made_harder < theta.cos()).all()
    assert (made_harder[below].diff() < 0).all()
    assert (made_harder[~below].diff() < 0).all()


@pytest.mark.parametrize("kind", [CosFace, ArcFace])
def test_angular_losses_ignore_the_lengths_of_features_and_weights(kind: type) -> None:
    head = kind(num_classes=4, feature_dim=5).double()
    before = head.per_sample(FEATURES, LABELS)
    head.weight.data *= 7
    torch.testing.assert_close(head.per_sample(0.2 * FEATURES, LABELS), before)
