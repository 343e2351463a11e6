"""Measures of a score's quality: AUROC, calibration, the risk of selective prediction; ties are exact."""

import math

import numpy as np
from jaxtyping import Bool, Float, Shaped

from maxmahal.errors import ArgumentError

BINS = 15


def auroc(positives: Shaped[np.ndarray, " m"], negatives: Shaped[np.ndarray, " n"]) -> float:
    """The chance that a positive scores above a negative, a tie counting half; NaN if one of the two is empty."""
    ours, theirs = _finite("positives", positives), _finite("negatives", negatives)
    if not len(ours) or not len(theirs):
        return math.nan
    theirs = np.sort(theirs)
    below = np.searchsorted(theirs, ours, side="left")
    not_above = np.searchsorted(theirs, ours, side="right")
    return float((below + not_above).sum() / (2 * len(ours) * len(theirs)))


def expected_calibration_error(
    confidences: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"], bins: int = BINS
) -> float:
    """Mean distance between confidence and accuracy over bins of equal width, weighted by their counts."""
    if not len(confidences) or len(confidences) != len(right):
        raise ArgumentError(f"A confidence for each prediction is needed; got {len(confidences)} for {len(right)}.")
    if confidences.min() < 0 or confidences.max() > 1:
        raise ArgumentError(f"Confidences lie in [0, 1]; got {confidences.min()} to {confidences.max()}.")
    places = np.minimum((confidences * bins).astype(np.int64), bins - 1)
    gaps = np.bincount(places, weights=confidences - right, minlength=bins)
    return float(np.abs(gaps).sum() / len(confidences))


def risk_coverage(scores: Shaped[np.ndarray, " n"], right: Bool[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """The share of wrong predictions among the k most certain ones, for k = 1 to n."""
    values = _finite("scores", scores)
    if not len(values) or len(values) != len(right):
        raise ArgumentError(f"A score for each prediction is needed; got {len(values)} for {len(right)}.")
    _, group = np.unique(values, return_inverse=True)
    wrong = np.bincount(group, weights=~right) / np.bincount(group)
    return np.asarray(np.cumsum(wrong[np.sort(group)]) / np.arange(1, len(values) + 1))


def risk_area(scores: Shaped[np.ndarray, " n"], right: Bool[np.ndarray, " n"]) -> float:
    """The mean risk over all coverages; smaller is better."""
    return float(risk_coverage(scores, right).mean())


def best_risk_area(right: Bool[np.ndarray, " n"]) -> float:
    """The area of a perfect score, which ranks every wrong prediction last."""
    return risk_area((~right).astype(np.float64), right)


def _finite(name: str, values: Shaped[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    found = np.asarray(values, dtype=np.float64)
    if np.isnan(found).any():
        raise ArgumentError(f"{name} hold NaN, which cannot be ordered; check the model that gave them.")
    return found
