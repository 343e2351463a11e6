"""The exact density against the Gaussian's own, and the paper's power beside it."""

import math

import pytest
import torch
from scipy import stats

from maxmahal.density import CenterSpheres, PairSpheres, log_ball_volume
from maxmahal.errors import ArgumentError
from paper.gallery.theorems import log_exact_density, log_paper_density, log_volume_rate, loss_at


# Features around the contours' center have one density on each contour, the Gaussian's own: an oracle without counts.
@pytest.mark.parametrize("dim", [1, 2, 3, 64, 512])
@pytest.mark.parametrize("gap", [0.4, -0.4, None])
def test_the_exact_density_is_the_gaussians_own(dim: int, gap: float | None) -> None:
    scale, samples = 0.7, 1000
    squares = torch.from_numpy(scale**2 * stats.chi2(dim).ppf([0.05, 0.3, 0.5, 0.7, 0.95]))
    center = torch.zeros(dim)
    contours = CenterSpheres(center) if gap is None else PairSpheres(center, float(squares[2]), gap)
    losses = loss_at(contours, squares)
    # p(C), with d(r²)/dC taken from two points of the closed form and not from the code under test.
    step = 1e-5 * losses
    slope = (contours.squared_radius(losses + step) - contours.squared_radius(losses - step)).abs() / (2 * step)
    per_square = torch.from_numpy(stats.chi2(dim).logpdf(squares.numpy() / scale**2)) - 2 * math.log(scale)
    found = log_exact_density(contours, losses, (per_square + slope.log()).exp(), samples)
    own = math.log(samples) - squares / (2 * scale**2) - 0.5 * dim * math.log(2 * math.pi * scale**2)
    assert found.tolist() == pytest.approx(own.tolist(), abs=1e-6)


@pytest.mark.parametrize("dim", [1, 2, 3, 32])
@pytest.mark.parametrize("gap", [0.4, -0.4, None])
def test_the_volumes_rate_is_its_derivative(dim: int, gap: float | None) -> None:
    contours = CenterSpheres(torch.zeros(dim)) if gap is None else PairSpheres(torch.zeros(dim), 1.5, gap)
    losses = loss_at(contours, torch.tensor([0.3, 1.0, 8.0], dtype=torch.float64))
    step = 1e-5 * losses
    ends = [log_ball_volume(dim, contours.squared_radius(losses + way * step).sqrt()).exp() for way in (1, -1)]
    expected = ((ends[0] - ends[1]).abs() / (2 * step)).log()
    assert log_volume_rate(contours, losses).tolist() == pytest.approx(expected.tolist(), abs=1e-6)


def test_no_volume_below_the_least_loss() -> None:
    spheres = PairSpheres(torch.zeros(3), 1.5, 0.4)
    least = loss_at(spheres, torch.zeros(1))
    assert log_volume_rate(spheres, 0.9 * least).tolist() == [-math.inf]
    assert math.isfinite(float(log_volume_rate(spheres, 1.1 * least)))


def test_mmcs_power_of_the_loss() -> None:
    losses = torch.tensor([0.5, 2.0], dtype=torch.float64)
    for dim in (2, 5, 64):
        spheres = CenterSpheres(torch.zeros(dim))
        exact, paper = (
            form(spheres, losses, torch.ones(2), 1).diff().item() / math.log(4)
            for form in (log_exact_density, log_paper_density)
        )
        assert exact == pytest.approx(-(dim - 2) / 2)
        assert paper == pytest.approx(-(dim - 1) / 2)


def test_the_limits_the_paper_draws_from_theorem_1() -> None:
    losses = torch.logspace(-12, -2, 11, dtype=torch.float64)
    away = PairSpheres(torch.zeros(6), 4.0, -0.5)
    density = log_exact_density(away, losses, torch.ones(11), 1)
    assert bool((density.diff() > 0).all())  # as the loss falls to 0, density falls with it
    together = log_exact_density(CenterSpheres(torch.zeros(6)), losses, torch.ones(11), 1)
    assert bool((together.diff() < 0).all())  # and under MMC it rises


def test_more_samples_are_more_density() -> None:
    losses, heights = torch.tensor([1.0]), torch.tensor([0.2])
    one, ten = (log_exact_density(CenterSpheres(torch.zeros(3)), losses, heights, count) for count in (7, 70))
    assert float(ten - one) == pytest.approx(math.log(10))


def test_callers_mistakes_are_named() -> None:
    losses = torch.tensor([1.0])
    with pytest.raises(ArgumentError, match=r"samples must be at least 1"):
        log_exact_density(CenterSpheres(torch.zeros(2)), losses, losses, 0)
