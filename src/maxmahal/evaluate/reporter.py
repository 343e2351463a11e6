"""What an evaluation tells whoever watches it."""

from typing import Protocol, runtime_checkable

from maxmahal.records.types import Finding


@runtime_checkable
class EvaluationReporter(Protocol):
    """Gets word of every step; the command line makes a display of it."""

    def begin(self, name: str, samples: int) -> None:
        """The evaluation of a model starts, or goes on."""

    def stage(self, title: str, planned: int, done: int) -> None:
        """A stage starts with so many samples, some of which may be recorded already."""

    def within(self, settled: int, total: int) -> None:
        """So far has the chunk in flight come."""

    def chunk(self, samples: int, robust: float) -> None:
        """So many samples more are recorded; the worst case so far."""

    def finding(self, finding: Finding) -> None:
        """A diagnostic check has an answer."""

    def note(self, text: str) -> None:
        """A line of its own."""


class SilentReporter:
    """Nobody watches."""

    def begin(self, name: str, samples: int) -> None:
        """Nothing."""

    def stage(self, title: str, planned: int, done: int) -> None:
        """Nothing."""

    def within(self, settled: int, total: int) -> None:
        """Nothing."""

    def chunk(self, samples: int, robust: float) -> None:
        """Nothing."""

    def finding(self, finding: Finding) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""
