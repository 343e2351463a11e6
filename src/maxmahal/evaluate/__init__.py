"""Evaluation: the worst case per sample, re-scored by the model itself."""

from maxmahal.evaluate.strongest import Effort, WorstCase, attack_hard, attack_within
from maxmahal.evaluate.worst_case import Budget, Verdicts, evaluate_quickly

__all__ = ["Budget", "Effort", "Verdicts", "WorstCase", "attack_hard", "attack_within", "evaluate_quickly"]
