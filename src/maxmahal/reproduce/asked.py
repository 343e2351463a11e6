"""What a section of a grid asks of each of its models: a suite, in its own ball or in another, on so many images."""

import math
from dataclasses import dataclass

from maxmahal.evaluate.suite import Suite, load_suite
from maxmahal.reproduce.grid import GridEvaluation
from maxmahal.reproduce.states import Identity

SEED = 0  # of the attacks


@dataclass(frozen=True)
class Asked:
    """One suite in one ball."""

    suite: Suite
    limit: int | None
    own: float
    """The radius that the suite names by itself."""

    @property
    def radius(self) -> float:
        """The one to look in."""
        return self.suite.threat_of(None).radius

    @property
    def smaller(self) -> bool:
        """Whether the ball is smaller than the suite's own, so that more images stand and take every attack."""
        return not self._usual and self.radius < self.own

    @property
    def column(self) -> str:
        """As people read it: "strict", "strict 1000", "strict 1/255 1000"."""
        ball = "" if self._usual else self.suite.epsilon
        size = "" if self.limit is None else str(self.limit)
        return " ".join(part for part in (self.suite.name, ball, size) if part)

    def identity(self, name: str, samples: int) -> Identity:
        """What tells the evaluation of a model apart in the records."""
        return name, self.suite.name, SEED, samples, self.suite.norm, self.radius

    @property
    def _usual(self) -> bool:
        return math.isclose(self.radius, self.own)


def asked_of(evaluation: GridEvaluation) -> Asked:
    """The suite that a section names, in the ball that it asks for; one that fixes its own balls refuses another."""
    own = load_suite(evaluation.suite)
    suite = own if evaluation.epsilon is None else load_suite(evaluation.suite, epsilon=evaluation.epsilon)
    return Asked(suite, evaluation.limit, own.threat_of(None).radius)
