"""Theorems 1 and 2 against counts: the exact density is accepted, the paper's power is rejected.

How a setting is judged. Features are drawn, seven thin shells are counted, and the exact density predicts each count
with nothing fitted. The seven together must not be rejected by a chi-square test at the level 1e-4, and no single count
may lie beyond the bound that Bonferroni's correction gives at the same level. Twenty settings of two theorems make 280
counts, of which one or so lies beyond three standard errors by chance: that share is checked too, over all settings.
The paper's form is judged by the same counts after its free constant was fitted to them.
"""

from functools import cache

import pytest
import torch
from scipy import stats

from maxmahal.errors import ArgumentError
from paper.gallery.figure import FigureOptions
from paper.gallery.figures.densities import (
    ShellCounts,
    chi_square,
    compute,
    count_between,
    gsce_trial,
    mmc_trial,
    run_trial,
)

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
def outcome(theorem: str, seed: int) -> ShellCounts:
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


def test_the_figure_has_both_verdicts() -> None:
    for each in compute(FigureOptions())["panels"]:
        assert each["exact_p_value"] > 1e-4
        assert each["paper_p_value"] < 1e-6
        assert len(each["losses"]) == 9


def test_neighbouring_ranges_share_no_sample() -> None:
    ends = torch.tensor([0.0, 1.0, 2.0, 3.0], dtype=torch.float64)
    losses = torch.tensor([0.0, 1.0, 1.0, 2.5, 3.0])
    assert count_between(losses, ends[:-1], ends[1:]).tolist() == [1, 2, 1]


def test_a_test_needs_more_counts_than_constants() -> None:
    with pytest.raises(ArgumentError, match=r"more counts than fitted constants; got 1 and 1"):
        chi_square(torch.tensor([3]), torch.tensor([3.0]), fitted=1)
