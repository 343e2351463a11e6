"""Progress of trainings, evaluations and downloads: a bar on a terminal, lines in a pipe, nothing with --quiet."""

import time
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column

import maxmahal
from maxmahal.cli.common import counted, per_second, print_line

NAMES = {
    "train_loss": "loss {:.4g}",
    "test_accuracy": "test {:.2%}",
    "validation_accuracy": "validation {:.2%}",
    "validation_pgd10": "PGD-10 {:.2%}",
}


Display = TypeVar("Display", bound="LiveDisplay")
INTERVAL = 20.0  # seconds between two lines about the same stage
SLOW = 1.5  # seconds: a stage that takes longer states its time, a faster one its rate


class LiveDisplay:
    """Lines, and a bar that is shown during the block on a terminal; neither with --quiet."""

    def __init__(self, console: Console, *columns: ProgressColumn, quiet: bool = False) -> None:
        self._console, self._quiet = console, quiet
        disable = quiet or not console.is_terminal
        title = TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"))
        self._bar = Progress(title, *columns, expand=True, console=console, transient=True, disable=disable)
        self._task = TaskID(0)

    def __enter__(self: Display) -> Display:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._bar.disable:
            self._bar.stop()

    def note(self, text: str) -> None:
        """Print a line."""
        if not self._quiet:
            print_line(self._console, text)

    def _begin(self, title: str, total: int, done: int, **fields: Any) -> None:
        """Start a new bar in place of the one before."""
        for finished in self._bar.task_ids:
            self._bar.remove_task(finished)
        self._task = self._bar.add_task(title, total=total, completed=done, **fields)


class TrainingProgress(LiveDisplay):
    """A reporter for the training loop."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        columns = (BarColumn(), TextColumn("{task.percentage:>3.0f}%"), TimeRemainingColumn())
        super().__init__(console, *columns, quiet=quiet)
        self._epochs = 0

    def start(self, epochs: int, epochs_done: int, steps_per_epoch: int) -> None:
        """Start the bar at the progress of the run."""
        self._epochs = epochs
        self._begin("training", epochs * steps_per_epoch, epochs_done * steps_per_epoch)
        if self._bar.disable and 0 < epochs_done < epochs:
            self.note(f"Resuming after epoch {epochs_done} of {epochs}.")

    def step(self) -> None:
        """Move the bar."""
        self._bar.advance(self._task)

    def epoch(self, metrics: "maxmahal.train.loop.Metrics") -> None:
        """Print one line per epoch."""
        parts = [text.format(metrics[name]) for name, text in NAMES.items() if name in metrics]
        self.note(f"epoch {metrics['epoch']:.0f}/{self._epochs}  {'  '.join(parts)}")


class EvaluationProgress(LiveDisplay):
    """A reporter for evaluations."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        columns: list[ProgressColumn] = [TextColumn("{task.fields[count]}"), TextColumn("{task.fields[outlook]}")]
        if console.width >= 80:  # narrow terminals show the name of the attack instead
            columns.insert(0, BarColumn(bar_width=12))
        if console.width >= 110:
            columns.append(TextColumn("{task.fields[robust]}"))
        super().__init__(console, *columns, quiet=quiet)
        self._title, self._planned, self._done = "", 0, 0
        self._started, self._fresh = time.monotonic(), 0
        self._robust, self._said = "", time.monotonic()

    def begin(self, name: str, samples: int) -> None:
        """Print a heading for the model."""
        self._robust = ""
        self.note(f"{name}: {counted(samples, 'sample')}")

    def stage(self, title: str, planned: int, done: int) -> None:
        """Start a new bar at the progress of the records."""
        self._title, self._planned, self._done = title, planned, done
        self._started, self._fresh = time.monotonic(), 0
        self._begin(title, planned, done, count=self._count(), outlook="", robust=self._robust)
        if self._bar.disable and 0 < done < planned:
            self.note(f"  {title}: resumed after {done:,} of {planned:,}")

    def within(self, done: float, outlook: str) -> None:
        """Move the bar inside a chunk; without a bar, print a line from time to time."""
        done = min(self._done + done, self._planned)
        self._bar.update(self._task, completed=done, outlook=outlook)
        if self._bar.disable and outlook and time.monotonic() - self._said >= INTERVAL:
            self._said = time.monotonic()
            self.note(f"  {self._title}: {done / max(self._planned, 1):.0%}, {outlook}")

    def chunk(self, samples: int, robust: float) -> None:
        """Move the bar; print a line when a stage is done."""
        self._done += samples
        self._fresh += samples
        self._robust = f"robust so far: {robust:.1%}"
        self._bar.update(self._task, completed=self._done, count=self._count(), robust=self._robust)
        if self._done >= self._planned:
            seconds = time.monotonic() - self._started
            cost = f"{seconds:.0f} s" if seconds >= SLOW else f"{per_second(self._fresh / max(seconds, 1e-6))}"
            self.note(f"  {self._title}: {counted(self._planned, 'sample')}, {cost}, {self._robust}")

    def _count(self) -> str:
        return f"{self._done:,}/{self._planned:,}"

    def finding(self, finding: "maxmahal.records.Finding") -> None:
        """Print a warning; other findings only move the bar."""
        self._done += 1
        self._bar.update(self._task, completed=self._done)
        if finding.flagged:
            self.note(f"  ! {finding.title}: {finding.sentence} {finding.remedy}".rstrip())


class DownloadProgress(LiveDisplay):
    """A reporter for pooch; it prints nothing without a terminal."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, BarColumn(), DownloadColumn())
        self.total = 0

    def update(self, count: int) -> None:
        """``count`` more bytes have arrived."""
        if not self._bar.task_ids:
            self._bar.start()
            self._begin("downloading", self.total, 0)
        self._bar.advance(self._task, count)

    def reset(self) -> None:
        """Start again from zero bytes; pooch does so before it completes the bar."""
        if self._bar.task_ids:
            self._bar.reset(self._task, total=self.total)

    def close(self) -> None:
        """The download has ended."""
        if self._bar.task_ids:
            self.__exit__()
            self._bar.remove_task(self._task)
