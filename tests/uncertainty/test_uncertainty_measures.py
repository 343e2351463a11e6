"""AUROC, calibration and risk against definitions, another library, and what must not change them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmahal.errors import ArgumentError
from maxmahal.uncertainty import auroc, best_risk_area, expected_calibration_error, risk_area, risk_coverage

pytestmark = pytest.mark.usefixtures("unchecked")
FEW = st.lists(st.integers(-5, 5), min_size=1, max_size=25)  # whole numbers, so that there are ties


def as_floats(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.float64)


@given(FEW, FEW)
def test_auroc_is_the_chance_that_a_positive_scores_higher(ours: list[int], theirs: list[int]) -> None:
    pairs = [(a > b) + 0.5 * (a == b) for a in ours for b in theirs]
    assert auroc(as_floats(ours), as_floats(theirs)) == pytest.approx(sum(pairs) / len(pairs))


@given(FEW, FEW)
def test_auroc_does_not_change_under_a_rising_map_and_turns_over_under_a_falling_one(
    ours: list[int], theirs: list[int]
) -> None:
    a, b = as_floats(ours), as_floats(theirs)
    assert auroc(np.exp(3 * a), np.exp(3 * b)) == pytest.approx(auroc(a, b))
    assert auroc(-a, -b) == pytest.approx(1 - auroc(a, b))


@given(FEW, FEW)
def test_auroc_agrees_with_scikit_learn(ours: list[int], theirs: list[int]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    labels = [1] * len(ours) + [0] * len(theirs)
    assert auroc(as_floats(ours), as_floats(theirs)) == pytest.approx(metrics.roc_auc_score(labels, ours + theirs))


def test_auroc_of_nothing_is_not_a_number_and_nan_is_refused() -> None:
    assert math.isnan(auroc(np.array([]), np.array([1.0])))
    with pytest.raises(ArgumentError, match="NaN"):
        auroc(np.array([math.nan]), np.array([1.0]))


def test_calibration_error_by_hand() -> None:
    confidences = np.array([0.95, 0.95, 0.95, 0.95, 0.55, 0.55])
    right = np.array([True, True, True, False, True, False])
    assert expected_calibration_error(confidences, right, bins=10) == pytest.approx((4 * 0.2 + 2 * 0.05) / 6)


def test_a_model_that_is_as_sure_as_it_is_right_is_calibrated_and_full_confidence_has_a_bin() -> None:
    assert expected_calibration_error(np.array([0.75] * 4), np.array([True, True, True, False])) == pytest.approx(0)
    assert expected_calibration_error(np.array([1.0, 1.0]), np.array([True, False])) == pytest.approx(0.5)


def test_confidences_outside_of_a_share_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"\[0, 1\]"):
        expected_calibration_error(np.array([1.5]), np.array([True]))
    with pytest.raises(ArgumentError, match="for each prediction"):
        expected_calibration_error(np.array([0.5]), np.array([True, False]))


def test_risk_by_hand() -> None:
    scores, right = np.array([3.0, 1.0, 2.0, 4.0]), np.array([False, True, True, False])
    assert risk_coverage(scores, right).tolist() == pytest.approx([0, 0, 1 / 3, 2 / 4])
    assert risk_area(scores, right) == pytest.approx((1 / 3 + 1 / 2) / 4)
    assert best_risk_area(right) == pytest.approx(risk_area(scores, right))


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=20), st.randoms())
def test_risk_does_not_depend_on_the_order_of_samples(pairs: list[tuple[int, bool]], random: object) -> None:
    shuffled = list(pairs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    curves = [
        risk_coverage(as_floats([score for score, _ in each]), np.array([right for _, right in each]))
        for each in (pairs, shuffled)
    ]
    assert curves[0].tolist() == pytest.approx(curves[1].tolist())
    wrong = sum(not right for _, right in pairs) / len(pairs)
    assert curves[0][-1] == pytest.approx(wrong)
    assert curves[0].mean() >= best_risk_area(np.array([right for _, right in pairs])) - 1e-12


def test_a_score_that_says_nothing_has_the_same_risk_at_every_coverage() -> None:
    assert risk_coverage(np.zeros(4), np.array([True, False, True, True])).tolist() == pytest.approx([0.25] * 4)
