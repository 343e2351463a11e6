"""Progress of trainings, evaluations and downloads: a bar on a terminal, lines in a pipe, nothing with --quiet."""

import time
from types import TracebackType
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

import maxmahal
from maxmahal.cli.common import print_line

NAMES = {
    "train_loss": "loss {:.4g}",
    "test_accuracy": "test {:.2%}",
    "validation_accuracy": "validation {:.2%}",
    "validation_pgd10": "PGD-10 {:.2%}",
}

Display = TypeVar("Display", bound="LiveDisplay")


class LiveDisplay:
    """A bar that is shown during the block; None without a terminal or with --quiet."""

    _bar: Progress | None = None

    def __enter__(self: Display) -> Display:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


class TrainingProgress(LiveDisplay):
    """A reporter for the training loop."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._console = console
        self._quiet = quiet
        self._epochs = 0
        self._task = TaskID(0)
        if console.is_terminal and not quiet:
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
            self._bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)

    def start(self, epochs: int, epochs_done: int, steps_per_epoch: int) -> None:
        """Start the bar at the progress of the run."""
        self._epochs = epochs
        if self._bar is not None:
            for finished in self._bar.task_ids:
                self._bar.remove_task(finished)
            self._task = self._bar.add_task(
                "training", total=epochs * steps_per_epoch, completed=epochs_done * steps_per_epoch
            )
        elif epochs_done and epochs_done < epochs:
            self.note(f"Resuming after epoch {epochs_done} of {epochs}.")

    def step(self) -> None:
        """Move the bar."""
        if self._bar is not None:
            self._bar.advance(self._task)

    def epoch(self, metrics: "maxmahal.train.loop.Metrics") -> None:
        """Print one line per epoch."""
        if self._quiet:
            return
        parts = [text.format(metrics[name]) for name, text in NAMES.items() if name in metrics]
        self._console.print(f"epoch {metrics['epoch']:.0f}/{self._epochs}  {'  '.join(parts)}", highlight=False)

    def note(self, text: str) -> None:
        """Print a line."""
        if not self._quiet:
            self._console.print(text, highlight=False, markup=False)


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
        """Print a heading for the model."""
        self._robust = ""
        self.note(f"{name}: {samples} samples")

    def stage(self, title: str, planned: int, done: int) -> None:
        """Start a new bar at the progress of the records."""
        self._title, self._planned, self._done = title, planned, done
        self._started, self._fresh = time.monotonic(), 0
        if self._bar is not None:
            for finished in self._bar.task_ids:
                self._bar.remove_task(finished)
            self._task = self._bar.add_task(title, total=planned, completed=done, rate="", robust=self._robust)
        elif 0 < done < planned:
            self.note(f"  {title}: resumed after {done} of {planned}")

    def within(self, settled: int, total: int) -> None:
        """Move the bar inside a chunk."""
        if self._bar is not None and self._task is not None:
            share = min(settled, total)
            self._bar.update(self._task, completed=min(self._done + share, self._planned))

    def chunk(self, samples: int, robust: float) -> None:
        """Move the bar; print a line when a stage is done."""
        self._done += samples
        self._fresh += samples
        rate = self._fresh / max(time.monotonic() - self._started, 1e-6)
        self._robust = f"robust so far: {robust:.1%}"
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._done, rate=f"{rate:.3g}/s", robust=self._robust)
        if self._done >= self._planned:
            self.note(f"  {self._title}: {self._planned} samples, {rate:.3g}/s, {self._robust}")

    def finding(self, finding: "maxmahal.records.Finding") -> None:
        """Print a warning; other findings only move the bar."""
        self._done += 1
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._done)
        if finding.flagged:
            self.note(f"  ! {finding.title}: {finding.sentence} {finding.remedy}".rstrip())

    def note(self, text: str) -> None:
        """Print a line."""
        if not self._quiet:
            print_line(self._console, text)


class DownloadProgress:
    """A reporter for pooch; it prints nothing without a terminal."""

    def __init__(self, console: Console) -> None:
        self._bar = Progress(TextColumn("downloading"), BarColumn(), DownloadColumn(), console=console, transient=True)
        self._task: TaskID | None = None
        self._enabled = console.is_terminal
        self.total = 0

    def update(self, count: int) -> None:
        """``count`` more bytes have arrived."""
        if not self._enabled:
            return
        if self._task is None:
            self._bar.start()
            self._task = self._bar.add_task("", total=self.total)
        self._bar.advance(self._task, count)

    def reset(self) -> None:
        """Start again from zero bytes; pooch does so before it completes the bar."""
        if self._task is not None:
            self._bar.reset(self._task, total=self.total)

    def close(self) -> None:
        """The download has ended."""
        if self._task is not None:
            self._bar.stop()
            self._task = None
