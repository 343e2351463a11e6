"""What a count of samples can and cannot tell: exact intervals and exact paired tests, from the binomial alone."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float

from maxmahal.errors import ArgumentError

CONFIDENCE = 0.95
_HALVINGS = 60  # of an interval of length 1: below the last bit of a double


@dataclass(frozen=True)
class Rate:
    """A share of samples with its Clopper-Pearson interval; ``count`` may be a sum of shares of a model that draws."""

    count: float
    total: int

    def __post_init__(self) -> None:
        if self.total < 1 or not 0 <= self.count <= self.total:
            raise ArgumentError(f"A rate needs a count in 0..total of at least one; got {self.count} of {self.total}.")

    @property
    def value(self) -> float:
        """The share itself."""
        return self.count / self.total

    @property
    def interval(self) -> tuple[float, float]:
        """Which true shares are compatible with it."""
        return clopper_pearson(self.count, self.total)

    def __str__(self) -> str:
        """In percent: "57.8 % [53.3, 62.2]", and "<= 0.74 %" for none.

        All of them is no such bound: what withstood these attacks may fall to others, so ">=" would claim too much.
        """
        return self.with_interval if self.count else f"<= {100 * self.interval[1]:.2f} %"

    @property
    def with_interval(self) -> str:
        """In percent, none and all of the samples too: "0.0 % [0.0, 0.7]"."""
        low, high = self.interval
        return f"{100 * self.value:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def clopper_pearson(count: float, total: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The exact interval of a binomial share; a count that is no whole number is widened to its neighbours."""
    tail = (1 - confidence) / 2
    fewest, most = math.floor(count), math.ceil(count)
    low = 0.0 if fewest == 0 else _bisect(lambda share: upper_tail(fewest, total, share) - tail)
    high = 1.0 if most == total else _bisect(lambda share: tail - lower_tail(most, total, share))
    return low, high


def points_apart(ours: Rate, theirs: Rate) -> tuple[float, float, float]:
    """How many points one rate is above another, with Newcombe's interval, made of the two's own.

    For rates of different images: where both models saw the same ones, ``Comparison`` knows more.
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
    """Images that only the first model gets right."""
    second_only: int
    total: int

    @property
    def difference(self) -> float:
        """How many points the first is ahead, as a share."""
        return (self.first_only - self.second_only) / self.total

    @property
    def p_value(self) -> float:
        """Exact McNemar test: how likely so uneven a split is among images that tell the two apart, were they equal."""
        return mcnemar(self.first_only, self.second_only)


def mcnemar(first_only: int, second_only: int) -> float:
    """Two-sided, exact: the images on which only one of two models is right, as so many tosses of a fair coin."""
    tosses = first_only + second_only
    if not tosses:
        return 1.0
    return min(1.0, 2 * lower_tail(min(first_only, second_only), tosses, 0.5))


def lower_tail(count: int, total: int, share: float) -> float:
    """P(X <= count) for a binomial X."""
    return _mass(range(count + 1), total, share)


def upper_tail(count: int, total: int, share: float) -> float:
    """P(X >= count) for a binomial X."""
    return _mass(range(count, total + 1), total, share)


def _mass(counts: range, total: int, share: float) -> float:
    if share <= 0:
        return 1.0 if 0 in counts else 0.0
    if share >= 1:
        return 1.0 if total in counts else 0.0
    chosen = np.arange(counts.start, counts.stop)
    logs = _log_choices(total)[chosen] + chosen * math.log(share) + (total - chosen) * math.log1p(-share)
    largest = float(logs.max())
    return min(1.0, math.exp(largest) * float(np.exp(logs - largest).sum()))


@lru_cache(maxsize=16)
def _log_choices(total: int) -> Float[np.ndarray, " n"]:
    """The logarithm of how many ways there are to choose 0, 1, ..., ``total`` of ``total``."""
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, total + 1)))])
    return np.asarray(factorials[-1] - factorials - factorials[::-1])


def _bisect(rising: Callable[[float], float]) -> float:
    """Where a rising function of a share crosses zero."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return (low + high) / 2
