"""Uncertainty put to the test: scores of what a model does not know, on mistakes, strangers and attacks that hide."""

from maxmahal.uncertainty.evading import evade_detector, evading, ignore_detector
from maxmahal.uncertainty.measures import (
    auroc,
    best_risk_area,
    expected_calibration_error,
    risk_area,
    risk_coverage,
)
from maxmahal.uncertainty.record import ModelResult, Record, ScoreResult, read_record, write_record
from maxmahal.uncertainty.run import study_models
from maxmahal.uncertainty.scores import SCORES, Score, scores_for
from maxmahal.uncertainty.strangers import CHANGES, strange_images
from maxmahal.uncertainty.study import Attacker, study_model

__all__ = [
    "CHANGES",
    "SCORES",
    "Attacker",
    "ModelResult",
    "Record",
    "Score",
    "ScoreResult",
    "auroc",
    "best_risk_area",
    "evade_detector",
    "evading",
    "expected_calibration_error",
    "ignore_detector",
    "read_record",
    "risk_area",
    "risk_coverage",
    "scores_for",
    "strange_images",
    "study_model",
    "study_models",
    "write_record",
]
