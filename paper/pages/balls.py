"""The balls that evaluations attacked in, beside those that their suites name."""

import math
from functools import cache

from maxmahal.evaluate.suite import Suite, load_suite, suite_names
from paper import own
from paper.summaries import Summary


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
def known_suite(name: str) -> Suite | None:
    """A suite of the package or of this folder; None for any other."""
    file = own("suite", name)
    return load_suite(file) if file != name or name in suite_names() else None


@cache
def _own_ball(suite: str) -> tuple[str, float] | None:
    found = known_suite(suite)
    return None if found is None else (found.norm, found.threat_of(None).radius)
