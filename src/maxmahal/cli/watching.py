"""How an evaluation looks from outside: a live bar on a terminal, plain lines in a pipe, nothing with --quiet."""

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

import maxmahal
from maxmahal.cli.progress import LiveDisplay


class EvaluationProgress(LiveDisplay):
    """A reporter for evaluations."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._console, self._quiet = console, quiet
        self._title, self._planned, self._done = "", 0, 0
        self._started, self._fresh = time.monotonic(), 0
        self._robust = ""
        self._task: TaskID | None = None
        if console.is_terminal and not quiet:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(compact=True),
                TextColumn("{task.fields[robust]}"),
            )
            self._bar = Progress(*columns, console=console, transient=True)

    def begin(self, name: str, samples: int) -> None:
        """A heading for each model."""
        self._robust = ""
        self.note(f"{name}: {samples} samples")

    def stage(self, title: str, planned: int, done: int) -> None:
        """A fresh bar, standing where the records stand."""
        self._title, self._planned, self._done = title, planned, done
        self._started, self._fresh = time.monotonic(), 0
        if self._bar is not None:
            for finished in self._bar.task_ids:
                self._bar.remove_task(finished)
            self._task = self._bar.add_task(title, total=planned, completed=done, rate="", robust=self._robust)
        elif 0 < done < planned:
            self.note(f"  {title}: going on after {done} of {planned}")

    def within(self, settled: int, total: int) -> None:
        """The bar moves inside a chunk too."""
        if self._bar is not None and self._task is not None:
            share = min(settled, total)
            self._bar.update(self._task, completed=min(self._done + share, self._planned))

    def chunk(self, samples: int, robust: float) -> None:
        """A line when a stage is through, or the bar."""
        self._done += samples
        self._fresh += samples
        rate = self._fresh / max(time.monotonic() - self._started, 1e-6)
        self._robust = f"standing so far {robust:.1%}"
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._done, rate=f"{rate:.3g}/s", robust=self._robust)
        if self._done >= self._planned:
            self.note(f"  {self._title}: {self._planned} samples, {rate:.3g}/s, {self._robust}")

    def finding(self, finding: "maxmahal.records.Finding") -> None:
        """Flags stand out; what is as it should be moves the bar only."""
        self._done += 1
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._done)
        if finding.flagged:
            self.note(f"  ! {finding.title}: {finding.sentence} {finding.remedy}".rstrip())

    def note(self, text: str) -> None:
        """A line of its own."""
        if not self._quiet:
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)
