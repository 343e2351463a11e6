"""Evaluation: the worst case per sample, re-scored by the model itself."""

from maxmahal.evaluate.worst_case import Budget, Verdicts, evaluate_quickly

__all__ = ["Budget", "Verdicts", "evaluate_quickly"]
