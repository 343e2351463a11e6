"""Differences over seeds: intervals and tests computed by hand, verdicts at their limits, many tests at once."""

import math

import pytest
from scipy import stats

from paper.pages.paired import Difference, paired, survives_correction


def test_an_interval_and_a_test_by_hand() -> None:
    found = Difference((1.0, 2.0, 6.0))  # mean 3, squares 4 + 1 + 9 = 14, s = √7, s/√3 = 1.5275
    assert found.mean == 3
    assert found.deviation == pytest.approx(math.sqrt(7))
    assert found.interval == pytest.approx((3 - 4.3027 * 1.5275, 3 + 4.3027 * 1.5275), abs=1e-3)
    # t = 3 / 1.5275 = 1.964 with 2 degrees of freedom: p = 1 − t / √(t² + 2)
    assert found.p_value == pytest.approx(1 - 1.96396 / math.sqrt(1.96396**2 + 2), abs=1e-5)
    assert found.seeds_for(1.0) == 30  # t of 29 degrees is 2.0452: 2.0452 · √7 / √30 = 0.988; with 29 seeds 1.006
    assert found.seeds_for(100.0) == 2


def test_a_test_at_its_limits() -> None:
    assert Difference((1.0, 1.0)).p_value == 0
    assert Difference((1.0, -1.0)).p_value == Difference((3.0,)).p_value == 1
    assert math.isinf(Difference((3.0,)).half_width)
    assert math.isnan(Difference(()).mean)


@pytest.mark.parametrize("values", [(1.0, 2.0, 6.0), (4.0, 5.0, 6.0), (-1.0, -1.1, -1.3), (0.2, 0.3, -0.1, 0.6)])
def test_the_interval_and_the_test_agree(values: tuple[float, ...]) -> None:
    found = Difference(values)
    assert found.leaves_out_zero == (found.p_value < 0.05)
    assert found.p_value == pytest.approx(stats.ttest_1samp(values, 0).pvalue, rel=1e-9)


def test_only_seeds_that_both_have_are_paired() -> None:
    assert paired({0: 5.0, 1: 7.0, 3: 9.0}, {1: 4.0, 0: 4.0, 2: 1.0}).values == (1.0, 3.0)
    # Seeds that are good or bad for both do not widen the interval.
    assert paired({0: 11.0, 1: 51.0, 2: 91.0}, {0: 10.0, 1: 50.0, 2: 90.0}).interval == pytest.approx((1, 1))


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((4.0, 5.0, 6.0), "helps"),
        ((-4.0, -5.0, -6.0), "hurts"),
        ((-4.0, 5.0, 6.0), "no difference seen"),
        ((0.4, 0.5, 0.6), "true, small"),
        ((-0.4, -0.5, -0.6), "true, small"),
        ((-0.4, 0.5, 0.6), "no difference seen"),
        ((5.0, 5.0), "not run"),  # two that agree prove nothing
        ((), "not run"),
    ],
)
def test_every_verdict(values: tuple[float, ...], verdict: str) -> None:
    assert Difference(values).verdict() == verdict


def test_many_tests_are_corrected_together() -> None:
    # Thresholds are 0.0125, 0.025, 0.0375 and 0.05: the third test passes, and with it the second, which fails its own.
    assert survives_correction([0.9, 0.03, 0.01, 0.026]) == [False, True, True, True]
    assert survives_correction([0.9, 0.04, 0.01, 0.026]) == [False, False, True, False]
    assert survives_correction([]) == []
