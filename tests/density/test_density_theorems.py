"""Theorems 1 and 2 against counts: the exact density stands, the paper's power does not.

How a setting is judged. Features are drawn, seven thin shells are counted, and the exact density predicts each count
with nothing fitted. The seven together must not be rejected by a chi-square test at the level 1e-4, and no single count
may lie beyond the bound that Bonferroni's correction gives at the same level. Twenty settings of two theorems make 280
counts, of which one or so lies beyond three standard errors by chance: that share is looked at too, over all settings.
The paper's form is judged by the same counts after its free constant was fitted to them.
"""

import math
from functools import cache

import pytest
import torch
from scipy import stats

from maxmahal.density import (
    CenterSpheres,
    Outcome,
    PairEllipsoids,
    PairSpheres,
    chi_square,
    gsce_trial,
    log_exact_density,
    log_missing_factor,
    log_paper_density,
    mmc_trial,
    run_trial,
)
from maxmahal.errors import ArgumentError

LEVEL = 1e-4
SHELLS = 7
SAMPLES = 400_000
MAKERS = {"theorem 1": gsce_trial, "theorem 2": mmc_trial}
DIMS = (2, 3, 8, 16, 32, 64, 2, 4, 5, 6, 10, 12, 14, 20, 24, 28, 40, 48, 56, 64)
USUAL = 6
settings = [
    pytest.param(seed, marks=() if seed < USUAL else pytest.mark.soak, id=f"d{dim}-seed{seed}")
    for seed, dim in enumerate(DIMS)
]


@cache
def outcome(theorem: str, seed: int) -> Outcome:
    return run_trial(MAKERS[theorem](DIMS[seed], seed), samples=SAMPLES, shells=SHELLS)


@pytest.mark.parametrize("theorem", MAKERS)
@pytest.mark.parametrize("seed", settings)
def test_counts_accept_the_exact_density(theorem: str, seed: int, record_property) -> None:
    found = outcome(theorem, seed)
    statistic, p_value = chi_square(found.counts, found.expected)
    record_property("chi_square", statistic)
    assert int(found.counts.min()) > 800
    assert p_value == pytest.approx(stats.chi2.sf(statistic, SHELLS), rel=1e-6)
    assert p_value > LEVEL, (statistic, found.errors)
    assert float(found.errors.abs().max()) < stats.norm.isf(LEVEL / SHELLS / 2)


@pytest.mark.parametrize("theorem", MAKERS)
@pytest.mark.parametrize("seed", settings)
def test_counts_reject_the_papers_power_even_with_its_constant_fitted(theorem: str, seed: int) -> None:
    found = outcome(theorem, seed)
    statistic, p_value = chi_square(found.counts, found.paper_expected, fitted=1)
    assert float(found.paper_expected.sum()) == pytest.approx(int(found.counts.sum()))
    assert p_value < LEVEL / 100, statistic


@pytest.mark.parametrize("theorem", MAKERS)
def test_nearly_every_count_is_within_three_standard_errors(theorem: str) -> None:
    errors = torch.cat([outcome(theorem, seed).errors for seed in range(USUAL)])
    assert float((errors.abs() < 3).double().mean()) >= 0.95
    # Neither too far nor too near: the errors have the size that they claim.
    assert 0.6 < float(errors.square().mean()) < 1.6


@pytest.mark.soak
@pytest.mark.parametrize("theorem", MAKERS)
def test_the_share_within_three_standard_errors_over_all_settings(theorem: str, record_property) -> None:
    errors = torch.cat([outcome(theorem, seed).errors for seed in range(len(DIMS))])
    share = float((errors.abs() < 3).double().mean())
    record_property("share", share)
    assert share >= 0.98
    assert 0.7 < float(errors.square().mean()) < 1.35


def test_the_settings_cover_what_they_should() -> None:
    trials = [gsce_trial(dim, seed) for seed, dim in enumerate(DIMS)]
    assert {trial.contours.gap > 0 for trial in trials[:USUAL]} == {True, False}
    offsets = [float(torch.linalg.vector_norm(trial.mean - trial.contours.center)) for trial in trials]
    assert any(offset == 0 for offset in offsets)
    assert any(offset > 0.5 for offset in offsets)
    assert len({trial.scale for trial in trials}) == len(trials)


# Features around the contours' center have one density on each contour, the Gaussian's own: an oracle without counts.
@pytest.mark.parametrize("dim", [1, 2, 3, 64, 512])
@pytest.mark.parametrize("gap", [0.4, -0.4, None])
def test_the_exact_density_is_the_gaussians_own(dim: int, gap: float | None) -> None:
    scale, samples = 0.7, 1000
    squares = torch.from_numpy(scale**2 * stats.chi2(dim).ppf([0.05, 0.3, 0.5, 0.7, 0.95]))
    center = torch.zeros(dim)
    contours = CenterSpheres(center) if gap is None else PairSpheres(center, float(squares[2]), gap)
    losses = contours.loss_at(squares)
    # p(C), with d(r²)/dC taken from two points of the closed form and not from the code under test.
    step = 1e-5 * losses
    slope = (contours.squared_radius(losses + step) - contours.squared_radius(losses - step)).abs() / (2 * step)
    per_square = torch.from_numpy(stats.chi2(dim).logpdf(squares.numpy() / scale**2)) - 2 * math.log(scale)
    found = log_exact_density(contours, losses, (per_square + slope.log()).exp(), samples)
    own = math.log(samples) - squares / (2 * scale**2) - 0.5 * dim * math.log(2 * math.pi * scale**2)
    assert found.tolist() == pytest.approx(own.tolist(), abs=1e-6)


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


@pytest.mark.parametrize("gap", [0.4, -0.4, None])
def test_the_missing_factor_is_the_notes(gap: float | None) -> None:
    losses = torch.tensor([0.3, 1.0, 2.0], dtype=torch.float64)
    contours = CenterSpheres(torch.zeros(5)) if gap is None else PairSpheres(torch.zeros(5), 9.0, gap)
    radius = contours.squared_radius(losses).sqrt()
    growth = 2.0 if gap is None else losses.exp() / ((losses.exp() - 1) * abs(gap))
    expected = growth / (2 * radius)
    assert log_missing_factor(contours, losses).exp().tolist() == pytest.approx(expected.tolist(), rel=1e-12)
    # Paper's volume is area·ΔC: with the factor it becomes the exact one.
    rate = contours.log_area(losses) + log_missing_factor(contours, losses)
    assert contours.log_volume_rate(losses).tolist() == pytest.approx(rate.tolist(), abs=1e-10)


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
    ellipsoids = PairEllipsoids(torch.zeros(2), torch.eye(2), 1.0, 0.0, 0.0)
    with pytest.raises(ArgumentError, match=r"for spheres only \(Eq. 7 and 9\); got PairEllipsoids"):
        log_paper_density(ellipsoids, losses, losses, 1)
    with pytest.raises(ArgumentError, match=r"samples must be at least 1"):
        log_exact_density(ellipsoids, losses, losses, 0)
    with pytest.raises(ArgumentError, match=r"more counts than fitted constants; got 1 and 1"):
        chi_square(torch.tensor([3]), torch.tensor([3.0]), fitted=1)
