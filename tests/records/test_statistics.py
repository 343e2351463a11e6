"""Intervals and paired tests against scipy, and what must hold of them whatever the counts."""

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from maxmahal.errors import ArgumentError
from maxmahal.records.statistics import (
    Comparison,
    Rate,
    clopper_pearson,
    mcnemar,
    points_apart,
)

pytestmark = pytest.mark.usefixtures("unchecked")  # whole numbers stand for floats
quickly = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
totals = st.integers(1, 1500)


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int]:
    total = draw(totals)
    return draw(st.integers(0, total)), total


@given(counts(), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
@quickly
def test_clopper_pearson_is_the_exact_interval(case: tuple[int, int], confidence: float) -> None:
    low, high = clopper_pearson(*case, confidence)
    expected = binomtest(*case).proportion_ci(confidence_level=confidence, method="exact")
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    # By definition: at either end, what was seen or more extreme has the probability of one tail.
    count, total = case
    if count > 0:
        assert binom.sf(count - 1, total, low) == pytest.approx((1 - confidence) / 2, rel=1e-6)
    if count < total:
        assert binom.cdf(count, total, high) == pytest.approx((1 - confidence) / 2, rel=1e-6)


@given(counts())
@quickly
def test_an_interval_holds_its_share_and_mirrors_that_of_the_rest(case: tuple[int, int]) -> None:
    count, total = case
    low, high = clopper_pearson(count, total)
    assert 0 <= low <= count / total <= high <= 1
    assert clopper_pearson(total - count, total) == pytest.approx((1 - high, 1 - low), abs=1e-9)


@given(counts(), st.integers(2, 5))
@quickly
def test_more_samples_and_less_confidence_narrow_it(case: tuple[int, int], times: int) -> None:
    count, total = case
    low, high = clopper_pearson(count, total)
    for narrow in (clopper_pearson(times * count, times * total), clopper_pearson(count, total, 0.8)):
        assert low - 1e-12 <= narrow[0] <= narrow[1] <= high + 1e-12


@given(counts(), st.floats(0.01, 0.99))
@quickly
def test_a_sum_of_shares_is_never_narrower_than_its_neighbours(case: tuple[int, int], share: float) -> None:
    count, total = case
    if count == total:
        count -= 1
    low, high = clopper_pearson(count + share, total)
    assert low == clopper_pearson(count, total)[0]
    assert high == clopper_pearson(count + 1, total)[1]


@given(st.integers(0, 300), st.integers(0, 300))
@quickly
def test_mcnemar_is_the_two_sided_sign_test(first: int, second: int) -> None:
    expected = binomtest(first, first + second).pvalue if first + second else 1.0
    assert mcnemar(first, second) == pytest.approx(expected, rel=1e-9)
    assert mcnemar(first, second) == mcnemar(second, first)
    assert Comparison(first, second, 600).p_value == mcnemar(first, second)
    assert Comparison(first, second, 600).difference == pytest.approx((first - second) / 600)


@pytest.mark.parametrize(
    ("count", "total", "text"),
    [
        (0, 500, "0.0 % (<= 0.74)"),
        (500, 500, "100.0 % [99.3, 100.0]"),
        (60, 60, "100.0 % [94.0, 100.0]"),
        (289, 500, "57.8 % [53.3, 62.2]"),
        (0, 1, "0.0 % (<= 97.50)"),
        (2.5, 5, "50.0 % [5.3, 94.7]"),
    ],
)
def test_how_a_rate_is_printed(count: float, total: int, text: str) -> None:
    assert str(Rate(float(count), total)) == text


def test_a_rate_of_none_can_be_printed_with_its_interval_too() -> None:
    assert Rate(0.0, 500).with_interval == "0.0 % [0.0, 0.7]"
    assert Rate(289.0, 500).with_interval == str(Rate(289.0, 500))


@pytest.mark.parametrize(("count", "total"), [(1.0, 0), (-1.0, 4), (5.0, 4), (float("nan"), 4)])
def test_impossible_rates_are_refused(count: float, total: int) -> None:
    with pytest.raises(ArgumentError, match="rate needs"):
        Rate(count, total)


def test_rates_of_different_images_are_apart_by_newcombes_interval() -> None:
    # Newcombe's (1998) method 10 has Wilson's intervals; these are exact ones, and a little wider.
    gap, low, high = points_apart(Rate(56.0, 70), Rate(48.0, 80))
    assert gap == pytest.approx(20.0)
    assert 3.9 < low < 5.24  # 5.24 and 33.39 in his Table II
    assert 33.39 < high < 34.8
    backwards = points_apart(Rate(48.0, 80), Rate(56.0, 70))
    assert backwards == pytest.approx((-gap, -high, -low))


def test_the_interval_of_a_paired_difference_by_hand() -> None:
    # With half an image in each cell: 30.5 and 10.5 of 1002, difference 20 / 1002, variance (41 − 20² / 1002) / 1002².
    low, high = Comparison(30, 10, 1000).interval
    reach = 1.959964 * math.sqrt(41 - 400 / 1002) / 1002
    assert (low, high) == pytest.approx((20 / 1002 - reach, 20 / 1002 + reach), abs=1e-7)
    assert Comparison(0, 0, 1000).interval == pytest.approx((-1.959964 / 1002, 1.959964 / 1002), abs=1e-7)
    assert Comparison(10, 0, 10).interval[1] == 1
    assert Comparison(0, 10, 10).interval[0] == -1
