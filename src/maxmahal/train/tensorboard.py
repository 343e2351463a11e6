"""Training curves in TensorBoard (pip install 'maxmahal[tensorboard]') and Weights & Biases ('maxmahal[wandb]')."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from maxmahal.errors import ArgumentError
from maxmahal.imports import integration
from maxmahal.train.loop import Metrics, Reporter


def open_log(folder: Path) -> Any:
    """TensorBoard's writer."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ArgumentError("TensorBoard is not installed: pip install 'maxmahal[tensorboard]'.") from error
    known, socket.gethostname = socket.gethostname, lambda: "host"  # which would become a part of the file's name
    try:
        return SummaryWriter(str(folder))
    finally:
        socket.gethostname = known


class LoggedTraining:
    """Logs the metrics of each epoch, and passes everything on to another reporter."""

    def __init__(self, reporter: Reporter, log: Any) -> None:
        self._reporter, self._log = reporter, log
        self.start, self.step, self.note = reporter.start, reporter.step, reporter.note

    def epoch(self, metrics: Metrics) -> None:
        """The metrics of an epoch, by its number."""
        for name, value in metrics.items():
            if name != "epoch":
                self._log.add_scalar(f"train/{name}", value, int(metrics["epoch"]))
        self._reporter.epoch(metrics)


@contextmanager
def opened_logs(folder: Path | None, project: str | None) -> Iterator[list[Any]]:
    """TensorBoard's writer in ``folder`` and W&B's run of ``project``, those that are given."""
    with ExitStack() as stack:
        logs = [] if folder is None else [open_log(folder)]
        stack.callback(lambda: [log.close() for log in logs])
        if project is not None:
            logs.append(integration("wandb").WandbLog(project))
        yield logs


@contextmanager
def logged(reporter: Reporter, folder: Path | None, project: str | None = None) -> Iterator[Reporter]:
    """The reporter itself, or one that also logs into ``folder`` of TensorBoard and ``project`` of W&B."""
    with opened_logs(folder, project) as logs:
        for log in logs:
            reporter = LoggedTraining(reporter, log)
        yield reporter
