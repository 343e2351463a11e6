"""Exact intervals of proportions and exact paired tests, from scipy's binomial and beta functions."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from jaxtyping import Bool
from scipy.special import bdtr, betaincinv  # scipy.stats has the same and takes a second to import

from maxmahal.errors import ArgumentError

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Rate:
    """A proportion with its Clopper-Pearson interval; ``count`` may be a sum of shares of a stochastic model."""

    count: float
    total: int

    def __post_init__(self) -> None:
        if self.total < 1 or not 0 <= self.count <= self.total:
            raise ArgumentError(f"A rate needs a count in 0..total of at least one; got {self.count} of {self.total}.")

    @property
    def value(self) -> float:
        """The proportion."""
        return self.count / self.total

    @property
    def interval(self) -> tuple[float, float]:
        """Its Clopper-Pearson interval."""
        return clopper_pearson(self.count, self.total)

    def __str__(self) -> str:
        """In percent: "57.8 % [53.3, 62.2]", and "0.0 % (<= 0.74)" for none.

        A proportion of 100 % is not written as a bound: other attacks may break more, so ">=" would claim too much.
        """
        return self.with_interval if self.count else f"0.0 % (<= {100 * self.interval[1]:.2f})"

    @property
    def with_interval(self) -> str:
        """In percent, also for none: "0.0 % [0.0, 0.7]"."""
        low, high = self.interval
        return f"{100 * self.value:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def clopper_pearson(count: float, total: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The exact interval of a binomial proportion; a count that is not whole gets the interval of both neighbours."""
    tail = (1 - confidence) / 2
    fewest, most = math.floor(count), math.ceil(count)
    low = 0.0 if fewest == 0 else float(betaincinv(fewest, total - fewest + 1, tail))
    high = 1.0 if most == total else float(betaincinv(most + 1, total - most, 1 - tail))
    return low, high


def points_apart(ours: Rate, theirs: Rate) -> tuple[float, float, float]:
    """The difference of two rates in points, with Newcombe's interval.

    For rates on different images; on the same images ``Comparison`` is more precise.
    """
    gap = ours.value - theirs.value
    (low, high), (bottom, top) = ours.interval, theirs.interval
    down = math.hypot(ours.value - low, top - theirs.value)
    up = math.hypot(high - ours.value, theirs.value - bottom)
    return 100 * gap, 100 * (gap - down), 100 * (gap + up)


@dataclass(frozen=True)
class Comparison:
    """Two models on the same images."""

    first_only: int
    """Images that only the first model classifies correctly."""
    second_only: int
    total: int

    @classmethod
    def of(cls, first: Bool[np.ndarray, " n"], second: Bool[np.ndarray, " n"]) -> "Comparison":
        """From which of the same images each model classifies correctly."""
        return cls(int((first & ~second).sum()), int((second & ~first).sum()), len(first))

    @property
    def difference(self) -> float:
        """The difference of the two accuracies, as a share."""
        return (self.first_only - self.second_only) / self.total

    @property
    def interval(self) -> tuple[float, float]:
        """Of the difference at 95 %: Wald's, with half an image added to each of the four cells (Agresti and Min)."""
        total, apart = self.total + 2, self.first_only - self.second_only
        variance = max(self.first_only + self.second_only + 1 - apart**2 / total, 0.0)
        reach = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * math.sqrt(variance) / total
        return max(apart / total - reach, -1.0), min(apart / total + reach, 1.0)

    @property
    def p_value(self) -> float:
        """Exact McNemar test of the hypothesis that both models are equally accurate."""
        return mcnemar(self.first_only, self.second_only)


def mcnemar(first_only: int, second_only: int) -> float:
    """Two-sided exact McNemar test: a sign test on the images that only one of two models classifies correctly."""
    pairs = first_only + second_only
    return min(1.0, 2 * float(bdtr(min(first_only, second_only), pairs, 0.5))) if pairs else 1.0
