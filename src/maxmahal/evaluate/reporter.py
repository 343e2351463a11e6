"""How an evaluation reports its progress: not at all, on the command line, or to a log."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from maxmahal.records.types import Finding
from maxmahal.train.tensorboard import opened_logs


@runtime_checkable
class EvaluationReporter(Protocol):
    """Is told about every step; the command line shows them."""

    def begin(self, name: str, samples: int) -> None:
        """The evaluation of a model starts or continues."""

    def stage(self, title: str, planned: int, done: int) -> None:
        """A stage starts with so many samples, of which some may be recorded already."""

    def within(self, done: float, outlook: str) -> None:
        """How many samples of the current chunk are done, parts of samples included, and what is ahead.

        ``outlook`` is such as "stage 3 of 10, about 4 min left".
        """

    def chunk(self, samples: int, robust: float) -> None:
        """So many more samples are recorded; ``robust`` is the worst-case accuracy so far."""

    def finding(self, finding: Finding) -> None:
        """A diagnostic check has a result."""

    def note(self, text: str) -> None:
        """A line of text."""


class SilentReporter:
    """Shows nothing."""

    def note(self, *_: Any, **__: Any) -> None:
        """Nothing."""

    begin = stage = within = chunk = finding = note


class LoggedEvaluation:
    """Passes everything on and logs the robust accuracy after each chunk to TensorBoard or W&B."""

    def __init__(self, reporter: EvaluationReporter, log: Any) -> None:
        self._reporter, self._log = reporter, log
        self._name, self._recorded = "", 0
        self.within, self.note = reporter.within, reporter.note

    def begin(self, name: str, samples: int) -> None:
        """One curve per model."""
        self._name, self._recorded = name, 0
        self._reporter.begin(name, samples)

    def stage(self, title: str, planned: int, done: int) -> None:
        """Samples recorded earlier count too, so that a curve continues where it stopped."""
        self._recorded += done
        self._reporter.stage(title, planned, done)

    def chunk(self, samples: int, robust: float) -> None:
        """One more point of the curve."""
        self._recorded += samples
        self._log.add_scalar(f"{self._name}/robust accuracy so far", robust, self._recorded)
        self._reporter.chunk(samples, robust)

    def finding(self, finding: Finding) -> None:
        """As text, with a mark if it is a warning."""
        mark = "FLAG: " if finding.flagged else ""
        self._log.add_text(f"{self._name}/{finding.check}", mark + finding.sentence)
        self._reporter.finding(finding)


@contextmanager
def logged(
    reporter: EvaluationReporter, folder: Path | None, project: str | None = None
) -> Iterator[EvaluationReporter]:
    """The reporter itself, or one that also logs into ``folder`` of TensorBoard and ``project`` of W&B."""
    with opened_logs(folder, project) as logs:
        for log in logs:
            reporter = LoggedEvaluation(reporter, log)
        yield reporter
