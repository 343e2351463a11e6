"""The balls that evaluations attacked in, beside those that their suites name."""

import math
from functools import cache

from maxmahal.evaluate.kinds import KINDS
from maxmahal.evaluate.suite import load_suite, suite_names
from maxmahal.evaluate.summary import Summary


def in_own_ball(summary: Summary) -> bool:
    """Whether it was attacked in the ball that its suite names."""
    return is_own_ball(summary.suite, summary.norm, summary.radius)


def is_own_ball(suite: str, norm: str, radius: float) -> bool:
    """Whether a suite names this ball; one that is not shipped names any."""
    ball = _own_ball(suite)
    return ball is None or (norm == ball[0] and math.isclose(radius, ball[1]))


def in_smaller_ball(summary: Summary) -> bool:
    """Whether it was attacked in a smaller ball of the norm that its suite names."""
    ball = _own_ball(summary.suite)
    return ball is not None and summary.norm == ball[0] and summary.radius < ball[1] and not in_own_ball(summary)


@cache
def _own_ball(suite: str) -> tuple[str, float] | None:
    if suite not in suite_names():
        return None
    found = load_suite(suite, KINDS)
    return found.norm, found.threat_of(None).radius
