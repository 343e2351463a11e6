"""Does the loss measure uncertainty? Scores on errors, on out-of-distribution images and under evading attacks."""

from maxmahal.uncertainty.measures import auroc, best_risk_area, expected_calibration_error, risk_area, risk_coverage
from maxmahal.uncertainty.ood import CHANGES, ood_images
from maxmahal.uncertainty.record import (
    Detection,
    ModelUncertainty,
    ScoreResult,
    UncertaintyRecord,
    read_record,
    write_record,
)
from maxmahal.uncertainty.scores import SCORES, Score, scores_for
from maxmahal.uncertainty.study import DetectorAttack, evading, study_model, study_models

__all__ = [
    "CHANGES",
    "SCORES",
    "Detection",
    "DetectorAttack",
    "ModelUncertainty",
    "Score",
    "ScoreResult",
    "UncertaintyRecord",
    "auroc",
    "best_risk_area",
    "evading",
    "expected_calibration_error",
    "ood_images",
    "read_record",
    "risk_area",
    "risk_coverage",
    "scores_for",
    "study_model",
    "study_models",
    "write_record",
]
