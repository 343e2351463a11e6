"""From values to places in a drawing, and where the ticks go."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from maxmahal.report.wording import short

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_SCALES: dict[str, Callable[[float], float]] = {"linear": float, "log": math.log10, "root": math.sqrt}


@dataclass(frozen=True)
class Axis:
    """One direction of a chart: what it measures, from where to where."""

    label: str
    low: float
    high: float
    scale: Literal["linear", "log", "root"] = "linear"
    """"root" spreads out what is small, as a logarithm does, and still has a place for zero."""
    text: Callable[[float], str] = short
    at: tuple[float, ...] = ()
    """Ticks at these values instead of round ones."""

    def place(self, value: float) -> float:
        """Where a value lies, 0 at the low end and 1 at the high end."""
        low, high, here = (_SCALES[self.scale](each) for each in (self.low, self.high, max(value, self.low)))
        return (here - low) / (high - low) if high > low else 0.5

    def ticks(self) -> list[float]:
        """Values to write beside the axis."""
        if self.at:
            return list(self.at)
        return log_ticks(self.low, self.high) if self.scale == "log" else linear_ticks(self.low, self.high)


def linear_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers within [low, high], about so many."""
    if high <= low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in _STEPS if factor * power >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten within [low, high], with 2 and 5 of each decade where there are few."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if math.log10(high / low) < 2.5 else (1,)
    ticks = [factor * 10.0**decade for decade in decades for factor in factors]
    return [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
