"""Whether a choice lies at the edge of what was tried, so that a better one may lie beyond."""

from collections.abc import Iterable
from typing import Literal

Edge = Literal["highest", "lowest"]


def edge_of(value: float, tried: Iterable[float]) -> Edge | None:
    """Which end of the values that were tried a chosen one lies at; None inside, and where one alone was tried."""
    known = set(tried)
    if len(known) < 2:
        return None
    return "highest" if value >= max(known) else "lowest" if value <= min(known) else None
