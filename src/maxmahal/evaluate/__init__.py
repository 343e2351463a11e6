"""Evaluation: suites of attacks, records that survive anything, diagnostics, and the worst case per sample."""

from maxmahal.evaluate.reporter import EvaluationReporter
from maxmahal.evaluate.run import evaluate_model, evaluate_models
from maxmahal.evaluate.suite import Stage, Suite, suite_names
from maxmahal.evaluate.worst_case import WorstCase, attack_hard, attack_within
from maxmahal.records import Evaluation, RecordsError, read_evaluations
from maxmahal.records.verdict import Verdict, compare, give_verdict, seed_spreads

__all__ = [
    "Evaluation",
    "EvaluationReporter",
    "RecordsError",
    "Stage",
    "Suite",
    "Verdict",
    "WorstCase",
    "attack_hard",
    "attack_within",
    "compare",
    "evaluate_model",
    "evaluate_models",
    "give_verdict",
    "read_evaluations",
    "seed_spreads",
    "suite_names",
]
