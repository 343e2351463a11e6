"""A run folder: resolved settings, metrics, checkpoints, and a lock so that only one process writes it."""

import json
import math
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from maxmahal.errors import CheckpointError, DataNotice
from maxmahal.files import (
    parse_json,
    read_text,
    remove_temporary_files,
    storage_errors,
    user_path,
    writable,
    write_text_atomically,
)
from maxmahal.settings import Table
from maxmahal.train.config import Settings, what_counts


class RunFolder:
    """The files of one run; all are written atomically."""

    def __init__(self, path: str | Path) -> None:
        self.path = user_path(path)
        self.settings = self.path / "settings.toml"
        self.metrics = self.path / "metrics.jsonl"
        self.state = self.path / "state.safetensors"
        self.last = self.path / "last.safetensors"
        self.best = self.path / "best.safetensors"
        self.result = self.path / "result.json"
        self.diverged = self.path / "diverged.json"
        self._files = (self.settings, self.metrics, self.state, self.last, self.best, self.result)

    def refuse_overwriting(self) -> None:
        """Raise an error if the folder already holds a run, or files of the same names."""
        taken = [path for path in self._files if path.exists()]
        if taken:
            raise CheckpointError(
                f"{self.path} already holds a run ({taken[0].name}); resume it with --resume (in Python: "
                "resume=True), or choose another folder."
            )

    def refuse_impossible(self) -> None:
        """Raise an error if the path cannot become a folder, before any work is done."""
        if self.path.exists() and not self.path.is_dir():
            raise CheckpointError(f"{self.path} is a file, and a run needs a folder; choose another name.")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Create the folder and lock it for this process; the system releases the lock even after a kill."""
        path = self.path / ".lock"
        with storage_errors(path):
            self.path.mkdir(parents=True, exist_ok=True)
            for each in (path, *self._files, self.diverged):
                writable(each, self.path)  # another user's run may contain links
            file = path.open("a")
        with file:
            try:
                _lock(file)
            except (BlockingIOError, PermissionError) as error:
                raise CheckpointError(
                    f"Another process is writing to {self.path}; wait for it or choose another --out."
                ) from error
            remove_temporary_files(self.path)
            yield

    def keep_metrics(self, epochs: int) -> None:
        """Keep the first ``epochs`` lines: later epochs were measured but not saved, and will run again."""
        kept = self._epochs()[0][:epochs]
        write_text_atomically(self.metrics, "".join(f"{json.dumps(record)}\n" for record in kept))

    def append_metrics(self, record: Table) -> None:
        """Append one line of JSON for a finished epoch, and sync it to disk."""
        with storage_errors(self.metrics), self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def read_metrics(self) -> list[Table]:
        """The metrics of all finished epochs; a last line that a crash cut off is left out, with a warning."""
        epochs, torn = self._epochs()
        if torn:
            warnings.warn(f"{self.metrics}: its last line is incomplete and was left out.", DataNotice, stacklevel=2)
        return epochs

    def _epochs(self) -> tuple[list[Table], bool]:
        """All complete lines, and whether the last line was incomplete."""
        try:
            lines = read_text(self.metrics, errors="replace").splitlines() if self.metrics.exists() else []
        except OSError as error:
            raise CheckpointError(f"Cannot read {self.metrics}: {error.strerror or error}; move it away.") from error
        epochs: list[Table] = []
        for number, line in enumerate(lines, 1):
            try:
                epochs.append(_epoch(line))
            except ValueError as error:
                if number < len(lines):
                    raise CheckpointError(
                        f"{self.metrics} is damaged (line {number}: {error}); restore a copy, or move it away."
                    ) from error
        return epochs, len(epochs) < len(lines)

    def write_diverged(self, epoch: int, settings: Settings) -> None:
        """Record that a training with these settings diverged in this epoch."""
        record = {"epoch": epoch, "settings": what_counts(settings)}
        write_text_atomically(self.diverged, json.dumps(record, indent=2) + "\n")

    def diverged_at(self, settings: Settings) -> int | None:
        """The epoch in which a training with these settings diverged here; None if not recorded."""
        try:
            record = parse_json(read_text(self.diverged))
            same = record["settings"] == parse_json(json.dumps(what_counts(settings)))
            return int(record["epoch"]) if same else None
        except (OSError, ValueError, KeyError, TypeError):
            return None  # an unreadable file does not prevent another attempt


def _lock(file: TextIO) -> None:
    """Until it is closed; a BlockingIOError, or on Windows a PermissionError, if another process has locked it."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _epoch(line: str) -> Table:
    record = parse_json(line, finite=False)  # earlier versions kept the loss of a run that diverged
    numbers = isinstance(record, dict) and all(type(value) in (int, float) for value in record.values())
    if not numbers or type(record.get("epoch")) is not int or record["epoch"] < 1:
        raise ValueError("not the numbers of an epoch")
    if not math.isfinite(record.get("train_seconds", 0.0)):
        raise ValueError("its time is not finite")
    return dict(record)
