"""The large-margin Gaussian mixture loss as its authors define it: margin, log-determinants, likelihood."""

import numpy as np
import pytest
import torch
from torch import nn

from maxmahal.errors import ArgumentError
from maxmahal.losses import LGM

RNG = np.random.default_rng(0)
Z, Y, MU = 2 * RNG.normal(size=(6, 3)), np.array([0, 1, 1, 3, 2, 0]), RNG.normal(size=(4, 3))
VARIANCES = np.exp(RNG.normal(size=(4, 3)))


def expected_loss(variances: np.ndarray, margin: float, weight: float) -> torch.Tensor:
    losses = []
    for z, y in zip(Z, Y, strict=True):
        squared = [float((z - mu) @ np.linalg.inv(np.diag(v)) @ (z - mu)) for mu, v in zip(MU, variances, strict=True)]
        log_dets = [np.log(np.linalg.det(np.diag(v))) for v in variances]
        logits = [
            -d / 2 * (1 + margin * (k == y)) - ld / 2 for k, (d, ld) in enumerate(zip(squared, log_dets, strict=True))
        ]
        cross_entropy = np.log(np.exp(logits).sum()) - logits[y]
        losses.append(cross_entropy + weight * (squared[y] / 2 + log_dets[y] / 2))
    return torch.tensor(losses)


def build(covariance: str, margin: float, weight: float) -> LGM:
    head = LGM(num_classes=4, feature_dim=3, margin=margin, likelihood_weight=weight, covariance=covariance).double()
    head.centers.data = torch.tensor(MU)
    if covariance == "diagonal":
        head.log_variances.data = torch.tensor(VARIANCES).log()
    return head


@pytest.mark.parametrize(("margin", "weight"), [(0.0, 0.0), (0.3, 0.0), (0.0, 0.1), (0.3, 0.1)])
@pytest.mark.parametrize("covariance", ["identity", "diagonal"])
def test_the_loss_is_the_originals(covariance: str, margin: float, weight: float) -> None:
    variances = VARIANCES if covariance == "diagonal" else np.ones((4, 3))
    actual = build(covariance, margin, weight).per_sample(torch.tensor(Z), torch.tensor(Y)).detach()
    torch.testing.assert_close(actual, expected_loss(variances, margin, weight))


@pytest.mark.parametrize("covariance", ["identity", "diagonal"])
def test_the_logits_carry_the_log_determinant_but_no_margin(covariance: str) -> None:
    variances = VARIANCES if covariance == "diagonal" else np.ones((4, 3))
    expected = [
        [-0.5 * (((z - mu) ** 2 / v).sum() + np.log(v).sum()) for mu, v in zip(MU, variances, strict=True)] for z in Z
    ]
    torch.testing.assert_close(build(covariance, 0.3, 0.1).logits(torch.tensor(Z)).detach(), torch.tensor(expected))


def test_the_identity_covariance_is_not_trained() -> None:
    assert {name for name, _ in LGM(num_classes=4, feature_dim=3).named_parameters()} == {"centers"}
    assert {name for name, _ in LGM(num_classes=4, feature_dim=3, covariance="diagonal").named_parameters()} == {
        "centers",
        "log_variances",
    }
    assert not LGM(num_classes=4, feature_dim=3).log_variances.any()


@pytest.mark.parametrize("likelihood_weight", [0.01, 0.1])
def test_a_trained_diagonal_covariance_stays_finite(likelihood_weight: float) -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(3).repeat(30)
    blobs = torch.tensor([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])[labels] + 0.5 * torch.randn(
        90, 2, generator=generator
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
        head = LGM(num_classes=3, feature_dim=2, covariance="diagonal", likelihood_weight=likelihood_weight)
    optimiser = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.05, momentum=0.9)
    losses = []
    for _ in range(600):
        optimiser.zero_grad()
        loss = head(net(blobs), labels)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.5 * losses[0]
    assert head.floored_log_variances.abs().max() < 10
    assert (head.logits(net(blobs)).argmax(dim=1) == labels).float().mean() > 0.95


@pytest.mark.parametrize("setting", ["margin", "likelihood_weight"])
def test_negative_settings_are_refused(setting: str) -> None:
    with pytest.raises(ArgumentError, match=r"must not be negative; got .*-0\.5"):
        LGM(num_classes=4, feature_dim=3, **{setting: -0.5})


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_covariance_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"covariance = 'diagonl' is unknown; did you mean 'diagonal'\?"):
        LGM(num_classes=4, feature_dim=3, covariance="diagonl")
