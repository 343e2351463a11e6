"""A run folder: resolved settings, metrics, checkpoints, and a lock so that only one process writes it."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from maxmahal.errors import CheckpointError
from maxmahal.files import remove_scraps, storage_errors, writable, write_text_atomically
from maxmahal.settings import to_table, to_toml
from maxmahal.train.config import Settings, what_counts

Record = dict[str, Any]


class RunFolder:
    """Where everything about one run lies. Files appear whole or not at all."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.settings = self.path / "settings.toml"
        self.metrics = self.path / "metrics.jsonl"
        self.state = self.path / "state.safetensors"
        self.last = self.path / "last.safetensors"
        self.best = self.path / "best.safetensors"
        self.result = self.path / "result.json"
        self.diverged = self.path / "diverged.json"
        self._files = (self.settings, self.metrics, self.state, self.last, self.best, self.result)

    def refuse_overwriting(self) -> None:
        """A folder that already holds a run, or files of the same names, is not to be written by a new one."""
        taken = [path for path in self._files if path.exists()]
        if taken:
            raise CheckpointError(
                f"{self.path} already holds a run ({taken[0].name}); go on with it by --resume (in Python: "
                "resume=True), or choose another folder."
            )

    def refuse_impossible(self) -> None:
        """A name that cannot become a folder is told before any work is done."""
        if self.path.exists() and not self.path.is_dir():
            raise CheckpointError(f"{self.path} is a file, and a run needs a folder; choose another name.")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Make the folder and hold it for this process; the system lets go of it even after a kill."""
        path = self.path / ".lock"
        with storage_errors(path):
            self.path.mkdir(parents=True, exist_ok=True)
            for each in (path, *self._files, self.diverged):
                writable(each, self.path)  # a run of somebody else may hold links
            file = path.open("a")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise CheckpointError(
                    f"Another process is writing to {self.path}; wait for it or choose another --out."
                ) from error
            remove_scraps(self.path)
            yield

    def write_settings(self, settings: Settings) -> None:
        """The resolved settings; the file is itself a preset."""
        write_text_atomically(self.settings, to_toml(to_table(settings)))

    def keep_metrics(self, epochs: int) -> None:
        """Drop lines of epochs that were measured but never saved, so that they can be measured again."""
        try:
            lines = self.metrics.read_text(encoding="utf-8").splitlines() if self.metrics.exists() else []
        except (OSError, UnicodeDecodeError) as error:
            raise CheckpointError(f"{self.metrics} cannot be read ({error}); move it away and resume.") from error
        write_text_atomically(self.metrics, "".join(f"{line}\n" for line in lines[:epochs]))

    def append_metrics(self, record: Record) -> None:
        """One line of JSON a finished epoch, safely on disk."""
        with storage_errors(self.metrics), self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def read_metrics(self) -> list[Record]:
        """All finished epochs."""
        return [json.loads(line) for line in self.metrics.read_text(encoding="utf-8").splitlines()]

    def write_result(self, record: Record) -> None:
        """The summary of a finished run."""
        write_text_atomically(self.result, json.dumps(record, indent=2) + "\n")

    def write_diverged(self, epoch: int, settings: Settings) -> None:
        """That a training by these settings ended in that epoch because its loss was no number any more."""
        record = {"epoch": epoch, "settings": what_counts(settings)}
        write_text_atomically(self.diverged, json.dumps(record, indent=2) + "\n")

    def diverged_at(self, settings: Settings) -> int | None:
        """The epoch in which a training by just these settings diverged here; None where none is known to have."""
        try:
            record = json.loads(self.diverged.read_text(encoding="utf-8"))
            same = record["settings"] == json.loads(json.dumps(what_counts(settings)))
            return int(record["epoch"]) if same else None
        except (OSError, ValueError, KeyError, TypeError):
            return None  # a file that nobody can read stops nobody from trying
