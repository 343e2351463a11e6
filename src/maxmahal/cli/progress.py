"""How a run looks from outside: a bar on a terminal, plain lines in a pipe, nothing with --quiet."""

from types import TracebackType
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

import maxmahal

NAMES = {
    "train_loss": "loss {:.4g}",
    "test_accuracy": "test {:.2%}",
    "validation_accuracy": "validation {:.2%}",
    "validation_pgd10": "PGD-10 {:.2%}",
}

Display = TypeVar("Display", bound="LiveDisplay")


class LiveDisplay:
    """A bar that is there as long as the block runs; None where nobody would see one."""

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
        """Show the bar where the run stands."""
        self._epochs = epochs
        if self._bar is not None:
            for finished in self._bar.task_ids:
                self._bar.remove_task(finished)
            self._task = self._bar.add_task(
                "training", total=epochs * steps_per_epoch, completed=epochs_done * steps_per_epoch
            )
        elif epochs_done and epochs_done < epochs:
            self.note(f"Going on after epoch {epochs_done} of {epochs}.")

    def step(self) -> None:
        """Move the bar."""
        if self._bar is not None:
            self._bar.advance(self._task)

    def epoch(self, metrics: "maxmahal.train.loop.Metrics") -> None:
        """One line an epoch."""
        if self._quiet:
            return
        parts = [text.format(metrics[name]) for name, text in NAMES.items() if name in metrics]
        self._console.print(f"epoch {metrics['epoch']:.0f}/{self._epochs}  {'  '.join(parts)}", highlight=False)

    def note(self, text: str) -> None:
        """A line of its own."""
        if not self._quiet:
            self._console.print(text, highlight=False, markup=False)


class DownloadProgress:
    """The object pooch reports to; on a pipe it stays silent."""

    def __init__(self, console: Console) -> None:
        self._bar = Progress(TextColumn("downloading"), BarColumn(), DownloadColumn(), console=console, transient=True)
        self._task: TaskID | None = None
        self._enabled = console.is_terminal
        self.total = 0

    def update(self, count: int) -> None:
        """So many more bytes have come."""
        if not self._enabled:
            return
        if self._task is None:
            self._bar.start()
            self._task = self._bar.add_task("", total=self.total)
        self._bar.advance(self._task, count)

    def reset(self) -> None:
        """pooch sets the bar back before it completes it."""
        if self._task is not None:
            self._bar.reset(self._task, total=self.total)

    def close(self) -> None:
        """The download is over."""
        if self._task is not None:
            self._bar.stop()
            self._task = None
