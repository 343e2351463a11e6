"""How severe errors are: within the superclass of the label, or in another superclass."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from maxmahal.errors import ArgumentError
from maxmahal.records.statistics import Rate
from maxmahal.records.types import Columns, Evaluation
from maxmahal.records.verdict import CLEAN


@dataclass(frozen=True)
class Severity:
    """Counts of samples: correct, wrong within the superclass, and wrong in another one."""

    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.counts) != 3 or min(self.counts) < 0 or sum(self.counts) < 1:
            raise ArgumentError(f"A severity needs three counts and at least one sample; got {self.counts}.")

    @property
    def superclass_accuracy(self) -> Rate:
        """Correct, or wrong within the superclass."""
        return Rate(float(sum(self.counts[:2])), sum(self.counts))

    @property
    def within(self) -> Rate | None:
        """The share of the errors that stay in the superclass; None if there are no errors."""
        errors = sum(self.counts[1:])
        return Rate(float(self.counts[1]), errors) if errors else None


def measure_severity(evaluation: Evaluation, superclasses: Sequence[int]) -> dict[str, Severity]:
    """For "clean" images and in the "worst" case; ``superclasses`` has one entry per class.

    The worst case is per sample the most severe error over the clean image and all counting attacks. The attacks look
    for any wrong class: an attack that aims at another superclass may find more.
    """
    if len(superclasses) != len(evaluation.class_names):
        raise ArgumentError(
            f"{evaluation.name} was evaluated on {len(evaluation.class_names)} classes, and there are "
            f"{len(superclasses)} superclasses; give one for each class of its data."
        )
    clean = next((stage.columns for stage in evaluation.stages if stage.name == CLEAN), None)
    if clean is None or not len(clean):
        raise ArgumentError(f"The evaluation of {evaluation.name} has no finished chunk yet; run it again to continue.")
    groups = np.array(superclasses)
    before = _errors(clean, groups)
    worst = before.copy()
    for stage in evaluation.stages:
        if stage.counts and stage.name != CLEAN and len(stage.columns):
            rows = np.searchsorted(clean.sample, stage.columns.sample)
            worst[rows] = np.maximum(worst[rows], _errors(stage.columns, groups))
    return {
        name: Severity(tuple(np.bincount(errors, minlength=3).tolist()))
        for name, errors in (("clean", before), ("worst", worst))
    }


def _errors(columns: Columns, groups: Int[np.ndarray, " l"]) -> Int[np.ndarray, " n"]:
    """0 if correct, 1 within the superclass, 2 in another one.

    A stochastic model may be wrong on average and correct in the recorded draw, so ``broken`` decides.
    """
    return np.where(columns.broken, 1 + (groups[columns.label] != groups[columns.prediction]), 0)
