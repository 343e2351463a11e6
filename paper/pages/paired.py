"""Two ways of training compared seed by seed: the mean difference, its t interval, and what it shows."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from scipy import stats

from maxmahal.records.statistics import CONFIDENCE

Verdict = Literal["helps", "hurts", "true, small", "no difference seen", "not run"]
ALPHA = 0.05
POINT = 1.0  # percentage points: a smaller difference makes no difference in practice
EQUAL = 3.0  # points: two are called equal if the whole interval stays within so many
ENOUGH = 3  # seeds: two that happen to agree would look like certainty
_MANY = 1000  # seeds, where the search for a number of them ends


@dataclass(frozen=True)
class Difference:
    """Differences between runs of the same seed, one per seed, in percentage points or whatever was measured."""

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
        """Sample standard deviation; infinite for a single seed."""
        if self.n < 2:
            return math.inf
        return math.sqrt(math.fsum((each - self.mean) ** 2 for each in self.values) / (self.n - 1))

    @property
    def half_width(self) -> float:
        """Of the interval: t · s / √n."""
        return _half_width(self.deviation, self.n)

    @property
    def interval(self) -> tuple[float, float]:
        """Which true differences are compatible with these seeds."""
        return self.mean - self.half_width, self.mean + self.half_width

    @property
    def p_value(self) -> float:
        """Of the paired t test, two-sided."""
        if self.n < 2 or not self.mean:
            return 1.0
        error = self.deviation / math.sqrt(self.n)
        return float(2 * stats.t.sf(abs(self.mean) / error, self.n - 1)) if error else 0.0

    @property
    def leaves_out_zero(self) -> bool:
        """Whether the interval excludes zero, however small the difference is."""
        low, high = self.interval
        return low > 0 or high < 0

    def verdict(self, least: float = POINT) -> Verdict:
        """A difference counts if its interval excludes zero; it is small below a least size."""
        if self.n < ENOUGH:
            return "not run"
        if not self.leaves_out_zero:
            return "no difference seen"
        if abs(self.mean) < least:
            return "true, small"
        return "helps" if self.mean > 0 else "hurts"

    def seeds_for(self, half_width: float) -> int:
        """About how many seeds an interval of that half width takes, with the same spread."""
        return next((n for n in range(2, _MANY) if _half_width(self.deviation, n) <= half_width), _MANY)


def paired(ours: dict[int, float], theirs: dict[int, float]) -> Difference:
    """Ours minus theirs at every seed that both have."""
    return Difference(tuple(ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())))


def survives_correction(p_values: Iterable[float]) -> list[bool]:
    """Benjamini and Hochberg's method: which tests to keep so that about 5 % of those kept are false."""
    known = list(p_values)
    return [bool(each) for each in stats.false_discovery_control(known) <= ALPHA] if known else []


def _half_width(deviation: float, n: int) -> float:
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * deviation / math.sqrt(n) if n > 1 else math.inf
