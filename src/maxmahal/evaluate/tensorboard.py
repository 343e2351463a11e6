"""An evaluation in TensorBoard: robust accuracy so far, against the samples recorded, for each model."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from maxmahal.evaluate.reporter import EvaluationReporter
from maxmahal.records.types import Finding
from maxmahal.train.tensorboard import open_log


class LoggedEvaluation:
    """A reporter that passes everything on and logs each chunk."""

    def __init__(self, reporter: EvaluationReporter, log: Any) -> None:
        self._reporter, self._log = reporter, log
        self._name, self._recorded = "", 0

    def begin(self, name: str, samples: int) -> None:
        """Another model, another curve."""
        self._name, self._recorded = name, 0
        self._reporter.begin(name, samples)

    def stage(self, title: str, planned: int, done: int) -> None:
        """What was recorded before counts as well, so that a curve goes on where it stopped."""
        self._recorded += done
        self._reporter.stage(title, planned, done)

    def within(self, settled: int, total: int) -> None:
        """Too fine to log."""
        self._reporter.within(settled, total)

    def chunk(self, samples: int, robust: float) -> None:
        """One more point."""
        self._recorded += samples
        self._log.add_scalar(f"{self._name}/robust accuracy so far", robust, self._recorded)
        self._reporter.chunk(samples, robust)

    def finding(self, finding: Finding) -> None:
        """As text, flagged or not."""
        mark = "FLAG: " if finding.flagged else ""
        self._log.add_text(f"{self._name}/{finding.check}", mark + finding.sentence)
        self._reporter.finding(finding)

    def note(self, text: str) -> None:
        """A line of its own."""
        self._reporter.note(text)


@contextmanager
def logged(reporter: EvaluationReporter, folder: Path | None) -> Iterator[EvaluationReporter]:
    """The reporter itself, or one that also logs into ``folder``."""
    if folder is None:
        yield reporter
        return
    log = open_log(folder)
    try:
        yield LoggedEvaluation(reporter, log)
    finally:
        log.close()
