"""How numbers read on the page; what a cell carries as its exact value stays unrounded."""

import math
from collections.abc import Sequence

from maxmahal.records.statistics import Rate

DASH = "–"
_MINUTE, _HOUR = 60, 3600


def typeset(text: str) -> str:
    """The signs that a terminal cannot be trusted with."""
    return text.replace("<=", "≤").replace(">=", "≥")


def percent(share: float) -> str:
    """One digit, without the sign."""
    return f"{100 * share:.1f}"


def rate_cell(rate: Rate) -> str:
    """A share for a table's cell: none of the samples shows what it proves, and all of them their interval."""
    if rate.count in (0, rate.total):
        return typeset(str(rate)).replace(" %", "")
    return percent(rate.value)


def points(share: float) -> str:
    """A signed difference in percentage points."""
    sign = "−" if share < 0 else "+"
    return f"{sign}{abs(100 * share):.1f}" if share else "0.0"


def p_value(value: float) -> str:
    """Three digits, or that it is below them."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def whole(number: int) -> str:
    """With commas between thousands."""
    return f"{number:,}"


def short(number: float | int) -> str:
    """Three significant digits, without trailing zeros."""
    if not math.isfinite(number):
        return DASH
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:,.0f}"


def duration(seconds: float | int) -> str:
    """The two largest units."""
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)} min {int(seconds % _MINUTE):02d} s"
    return f"{int(seconds // _HOUR)} h {int(seconds % _HOUR // _MINUTE):02d} min"


def listed(words: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"; empty without words."""
    return " and ".join([*filter(None, [", ".join(words[:-1])]), *words[-1:]])


def plain(value: object) -> str:
    """Coordinates to a hundredth of a unit, which keeps pages small."""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".") if round(value, 2) else "0"
    return str(value)
