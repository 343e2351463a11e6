"""One number of ours, as a cell of a table or with its interval in a sentence."""

import math
from dataclasses import dataclass
from functools import lru_cache

from maxmahal.records.statistics import Rate
from maxmahal.report.wording import rate_cell, typeset

_SHOWN = 0.0005  # a share below it is 0.0 % in one digit
_NEARLY_ALL = 0.05  # of the images: a mean distance over the rest may be compared with others


@dataclass(frozen=True)
class Measured:
    """An accuracy in percent, or a mean distance."""

    rate: Rate | None
    """None for a distance."""
    distance: float
    samples: int
    limited: bool
    """Measured on fewer images than the suite would take by itself."""
    error: float | None = None
    """Of a mean distance; None where it is not known."""
    note: str = ""
    """What a reader has to know of it, in a few words."""
    left: Rate | None = None
    """Of a mean distance: images still right after the attack, of those that were right before it."""

    @property
    def value(self) -> float:
        """Percent, or the distance; NaN where a minimum-norm attack broke nothing."""
        return self.distance if self.rate is None else 100 * self.rate.value

    @property
    def unturned(self) -> str:
        """ "145 of 340 not turned" by an attack that no ball held back; empty where nearly all were."""
        return f"{self.left.count:g} of {self.left.total:,} not turned" if self.left and _is_far(self.left) else ""

    @property
    def cell(self) -> str:
        """For a table: one digit, what none or all of the samples prove, and the few that one digit would hide."""
        text = _share(self.rate) if self.rate else _distance(self.distance)
        text = "none broken" if math.isnan(self.value) else f"{text} ({self.unturned})" if self.unturned else text
        return f"{text} (first {self.samples:,})" if self.limited else text

    @property
    def full(self) -> str:
        """With its interval."""
        text = _with_interval(self.rate) if self.rate else self.cell
        text = f"{text} (first {self.samples:,})" if self.limited and self.rate else text
        return f"{text} ({self.note})" if self.note else text


def _distance(value: float) -> str:
    """Two digits, or three where that is all there would be to see."""
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def _share(rate: Rate) -> str:
    return f"{100 * rate.value:.2g} ({_survivors(rate)})" if _is_hidden(rate) else rate_cell(rate)


@lru_cache(maxsize=4096)  # a bisection of sums over the whole binomial, and many cells say the same
def _with_interval(rate: Rate) -> str:
    if not _is_hidden(rate):
        return typeset(str(rate))
    low, high = (100 * end for end in rate.interval)
    return f"{100 * rate.value:.2g} % [{low:.2f}, {high:.2f}] ({_survivors(rate)})"


def _is_far(left: Rate) -> bool:
    return left.value > _NEARLY_ALL


def _is_hidden(rate: Rate) -> bool:
    return 0 < rate.value < _SHOWN


def _survivors(rate: Rate) -> str:
    return f"{rate.count:g} of {rate.total:,}"
