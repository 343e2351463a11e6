"""The elastic loss against Eq. 21 as the paper writes it, in terms of the moved centers μ."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from maxmahal.errors import ArgumentError
from maxmahal.losses import EMC, MMC, emc_loss

RNG = np.random.default_rng(0)
Z, Y, PRESET = 2 * RNG.normal(size=(5, 3)), np.array([0, 1, 1, 3, 2]), RNG.normal(size=(4, 3))
FEATURES, LABELS, CENTERS = torch.tensor(Z), torch.tensor(Y), torch.tensor(PRESET)


def equation_21(mu: np.ndarray, alpha: float) -> Tensor:
    pairs = zip(Z, Y, strict=True)
    return torch.tensor(
        [((z - mu[y]) ** 2).sum() / 2 + ((mu[y] - PRESET[y]) ** 2).sum() / (2 * alpha) for z, y in pairs]
    )


def head_at(mu: np.ndarray, alpha: float, scale: float = 1.0) -> EMC:
    head = EMC(CENTERS, alpha=alpha, scale=scale)
    head.offsets.data = torch.tensor((mu - PRESET) / math.sqrt(alpha))
    return head


@pytest.mark.parametrize("scale", [1.0, 2.0])
@pytest.mark.parametrize("alpha", [1e-4, 0.1, 3.0])
def test_it_is_equation_21_in_the_papers_own_parametrisation(alpha: float, scale: float) -> None:
    mu = PRESET + 0.3 * np.random.default_rng(1).normal(size=(4, 3))
    head = head_at(mu, alpha, scale)
    torch.testing.assert_close(head.class_centers.detach(), torch.tensor(mu))
    torch.testing.assert_close(head.per_sample(FEATURES, LABELS).detach(), scale * equation_21(mu, alpha))
    functional = emc_loss(FEATURES, LABELS, CENTERS, torch.tensor((mu - PRESET) / math.sqrt(alpha)), alpha)
    torch.testing.assert_close(functional, equation_21(mu, alpha))
    expected = torch.tensor([[-scale * 0.5 * ((z - center) ** 2).sum() for center in mu] for z in Z])
    torch.testing.assert_close(head.logits(FEATURES).detach(), expected)


@settings(deadline=None, max_examples=50)
@given(alpha=st.floats(1e-4, 1e3), seed=st.integers(0, 2**32 - 1))
def test_the_least_loss_over_the_centers_is_the_distance_over_one_plus_alpha(alpha: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    z, preset = rng.normal(size=3) * 3, rng.normal(size=3)
    features, label = torch.tensor(z[None]), torch.tensor([0])
    least = ((z - preset) ** 2).sum() / (2 * (1 + alpha))
    best = (alpha * z + preset) / (1 + alpha)
    offsets = torch.tensor((best - preset)[None] / math.sqrt(alpha)).requires_grad_()
    value = emc_loss(features, label, torch.tensor(preset[None]), offsets, alpha).sum()
    assert value.item() == pytest.approx(least, rel=1e-9)
    (gradient,) = torch.autograd.grad(value, offsets)
    assert gradient.abs().max() < 1e-9 * (1 + math.sqrt(alpha) * np.abs(z - preset).max())
    other = offsets.detach() + torch.tensor(rng.normal(size=(1, 3)))
    assert emc_loss(features, label, torch.tensor(preset[None]), other, alpha).item() >= least - 1e-12


def test_a_vanishing_alpha_gives_mmc() -> None:
    """With the centers at their best for the features, and at any bounded offset, the loss tends to Eq. 8's."""
    mmc = MMC(CENTERS)
    gaps, logit_gaps = [], []
    for alpha in (1e-2, 1e-4, 1e-6, 1e-8):
        best = (alpha * Z + PRESET[Y]) / (1 + alpha)
        losses = []
        for sample in range(5):
            mu = PRESET.copy()
            mu[Y[sample]] = best[sample]
            losses.append(head_at(mu, alpha).per_sample(FEATURES[sample, None], LABELS[sample, None]).detach())
        gaps.append(float((torch.cat(losses) - mmc.per_sample(FEATURES, LABELS)).abs().max()))
        head = EMC(CENTERS, alpha=alpha)
        head.offsets.data.fill_(1.0)
        logit_gaps.append(float((head.logits(FEATURES).detach() - mmc.logits(FEATURES)).abs().max()))
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 1e-6
    assert logit_gaps[-1] < 1e-2
    torch.testing.assert_close(EMC(CENTERS).per_sample(FEATURES, LABELS).detach(), mmc.per_sample(FEATURES, LABELS))


def test_training_with_a_small_alpha_stays_finite_and_keeps_the_preset_centers() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(3).repeat(30)
    blobs = torch.tensor([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])[labels] + 0.3 * torch.randn(
        90, 2, generator=generator
    )
    preset = torch.tensor([[0.0, 2.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3))
    head = EMC(preset, alpha=1e-4)
    optimiser = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.05, momentum=0.9)
    losses = []
    for _ in range(300):
        optimiser.zero_grad()
        loss = head(net(blobs), labels)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.1 * losses[0]
    assert torch.equal(head.centers, preset)
    assert 0 < (head.class_centers - preset).abs().max() < 0.1


@pytest.mark.parametrize("alpha", [0.0, -1.0, math.inf, math.nan])
def test_an_alpha_that_is_no_variance_is_refused(alpha: float) -> None:
    with pytest.raises(ArgumentError, match=rf"alpha must be positive.*got {alpha}"):
        EMC(CENTERS, alpha=alpha)
