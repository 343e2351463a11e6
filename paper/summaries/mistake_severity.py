"""How severe errors are: the height, in a tree of classes, of the lowest common ancestor of label and prediction."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from maxmahal.centers import Tree, ancestor_heights, tree_from_superclasses
from maxmahal.errors import ArgumentError
from maxmahal.records.statistics import CONFIDENCE, Rate, clopper_pearson
from maxmahal.records.types import Columns, Evaluation
from maxmahal.records.verdict import CLEAN


@dataclass(frozen=True)
class Severity:
    """Counts of samples by the height of the lowest common ancestor of label and prediction."""

    counts: tuple[int, ...]
    """Of height 0 (correct), 1 (wrong, but in the same superclass), 2, ... up to the root."""

    def __post_init__(self) -> None:
        if len(self.counts) < 2 or min(self.counts) < 0 or sum(self.counts) < 1:
            raise ArgumentError(f"A severity needs counts of at least two heights and a sample; got {self.counts}.")

    @property
    def total(self) -> int:
        """All samples."""
        return sum(self.counts)

    @property
    def mistakes(self) -> int:
        """Samples that are misclassified."""
        return self.total - self.counts[0]

    @property
    def accuracy(self) -> Rate:
        """Of the classes themselves."""
        return Rate(float(self.counts[0]), self.total)

    @property
    def superclass_accuracy(self) -> Rate:
        """Correct, or wrong within the superclass."""
        return Rate(float(sum(self.counts[:2])), self.total)

    @property
    def within(self) -> Rate | None:
        """The share of the errors that stay in the superclass; None if there are no errors."""
        return Rate(float(self.counts[1]), self.mistakes) if self.mistakes else None

    @property
    def distance(self) -> float | None:
        """The mean height of the errors, at least 1; None if there are none."""
        if not self.mistakes:
            return None
        return sum(height * count for height, count in enumerate(self.counts)) / self.mistakes

    @property
    def distance_interval(self) -> tuple[float, float] | None:
        """1 + P(height ≥ 2) + P(height ≥ 3) + ...: the sum of simultaneous exact intervals of the terms."""
        if not self.mistakes:
            return None
        tails = [sum(self.counts[height:]) for height in range(2, len(self.counts))]
        confidence = 1 - (1 - CONFIDENCE) / max(len(tails), 1)
        ends = [clopper_pearson(float(count), self.mistakes, confidence) for count in tails]
        return 1 + sum(low for low, _ in ends), 1 + sum(high for _, high in ends)


@dataclass(frozen=True)
class Severities:
    """Of one evaluation."""

    clean: Severity
    attacked: Severity
    """Per sample the largest height over the clean image and all counting attacks.

    The attacks look for any wrong class: an attack that aims at another superclass may find more.
    """


def measure_severity(evaluation: Evaluation, tree: Tree | Sequence[int]) -> Severities:
    """For clean images and in the worst case; ``tree`` may be a list with the superclass of every class."""
    heights = class_heights(tree)
    if len(heights) != len(evaluation.class_names):
        raise ArgumentError(
            f"{evaluation.name} was evaluated on {len(evaluation.class_names)} classes, and the tree has "
            f"{len(heights)}; choose the tree of its data."
        )
    clean = next((stage.columns for stage in evaluation.stages if stage.name == CLEAN), None)
    if clean is None or not len(clean):
        raise ArgumentError(f"The evaluation of {evaluation.name} has no finished chunk yet; run it again to continue.")
    before = _mistaken(clean, heights)
    worst = before.copy()
    for stage in evaluation.stages:
        if stage.counts and stage.name != CLEAN and len(stage.columns):
            rows = np.searchsorted(clean.sample, stage.columns.sample)
            worst[rows] = np.maximum(worst[rows], _mistaken(stage.columns, heights))
    levels = int(heights.max())
    return Severities(_count(before, levels), _count(worst, levels))


def class_heights(tree: Tree | Sequence[int]) -> Int[np.ndarray, "l l"]:
    """Heights of common ancestors; a flat list of numbers is the superclass of each class."""
    flat = isinstance(tree, Sequence) and not isinstance(tree, str) and all(isinstance(each, int) for each in tree)
    return np.asarray(ancestor_heights(tree_from_superclasses(tree) if flat else tree).numpy())  # type: ignore[arg-type]


def _mistaken(columns: Columns, heights: Int[np.ndarray, "l l"]) -> Int[np.ndarray, " n"]:
    """0 where the model is correct; a stochastic model may be wrong on average and correct in the recorded draw."""
    found = heights[columns.label, columns.prediction]
    return np.where(columns.broken, np.maximum(found, 1), 0)


def _count(mistaken: Int[np.ndarray, " n"], levels: int) -> Severity:
    return Severity(tuple(int(count) for count in np.bincount(mistaken, minlength=max(levels, 1) + 1)))
