"""Two ways of training compared seed by seed: the difference of means, its t interval, and what may be said of it."""

import math
from dataclasses import dataclass
from typing import Literal

from maxmahal.errors import ArgumentError
from maxmahal.records.statistics import CONFIDENCE
from maxmahal.report.wording import counted
from paper.pages.judging import POINT

Verdict = Literal["helps", "hurts", "no difference seen", "not run"]
EQUAL = 3.0  # points: an interval that stays within so many says that two are equal for most purposes
ENOUGH = 3  # seeds: two that happen to agree would look like certainty
ENOUGH_SEEDS = counted("seed", ENOUGH)
"""The same in words."""
_FAR = 1e6  # no t quantile that anybody asks for lies beyond
_HALVINGS = 100


@dataclass(frozen=True)
class Difference:
    """Differences between runs that share a seed, one a seed, in percentage points or whatever was measured."""

    values: tuple[float, ...]

    @property
    def n(self) -> int:
        """How many seeds both have."""
        return len(self.values)

    @property
    def mean(self) -> float:
        """Of the differences, which is the difference of the means."""
        return math.fsum(self.values) / self.n if self.values else math.nan

    @property
    def deviation(self) -> float:
        """Sample standard deviation; infinite for a single seed, which tells nothing about spread."""
        if self.n < 2:
            return math.inf
        return math.sqrt(math.fsum((each - self.mean) ** 2 for each in self.values) / (self.n - 1))

    @property
    def half_width(self) -> float:
        """Of the interval: t · s / √n."""
        if self.n < 2:
            return math.inf
        return t_quantile(self.n - 1, CONFIDENCE) * self.deviation / math.sqrt(self.n)

    @property
    def interval(self) -> tuple[float, float]:
        """Which true differences are compatible with these seeds."""
        return self.mean - self.half_width, self.mean + self.half_width

    @property
    def p_value(self) -> float:
        """Of the paired t test, two-sided: how likely so large a mean is where there is no difference."""
        if self.n < 2 or not self.mean:
            return 1.0
        error = self.deviation / math.sqrt(self.n)
        return 1.0 - _within(abs(self.mean) / error, self.n - 1) if error else 0.0

    @property
    def leaves_out_zero(self) -> bool:
        """Whether no difference at all is incompatible with these seeds, however small the one that was seen."""
        low, high = self.interval
        return low > 0 or high < 0

    def verdict(self, least: float = POINT) -> Verdict:
        """A difference counts if its interval leaves out zero and it is of some size."""
        if self.n < ENOUGH:
            return "not run"
        low, high = self.interval
        if low > 0 and self.mean >= least:
            return "helps"
        return "hurts" if high < 0 and self.mean <= -least else "no difference seen"

    def seeds_for(self, half_width: float) -> int:
        """About how many seeds it would take for an interval of that half width, were the spread to stay."""
        count = 2
        while t_quantile(count - 1, CONFIDENCE) * self.deviation / math.sqrt(count) > half_width and count < 1000:
            count += 1
        return count


def paired(ours: dict[int, float], theirs: dict[int, float]) -> Difference:
    """Ours minus theirs at every seed that both have."""
    return Difference(tuple(ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())))


def t_quantile(freedom: int, confidence: float) -> float:
    """The t with P(|T| <= t) = ``confidence`` for Student's T of so many degrees of freedom."""
    if freedom < 1 or not 0 < confidence < 1:
        raise ArgumentError(
            f"A t quantile needs a degree of freedom and a confidence in (0, 1); got {freedom} and {confidence}."
        )
    low, high = 0.0, _FAR
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < confidence else (low, middle)
    return (low + high) / 2


def _within(t: float, freedom: int) -> float:
    """P(|T| <= t), a finite sum for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    angle = math.atan2(t, math.sqrt(freedom))
    sine, squared = math.sin(angle), math.cos(angle) ** 2
    odd = freedom % 2 == 1
    if freedom == 1:
        return 2 * angle / math.pi
    term = total = math.cos(angle) if odd else 1.0
    for k in range(3 if odd else 2, freedom - 1, 2):
        term *= squared * (k - 1) / k
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
