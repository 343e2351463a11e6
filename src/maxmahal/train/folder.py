"""A run folder: resolved settings, metrics, checkpoints, and a lock so that only one process writes it."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maxmahal.errors import CheckpointError
from maxmahal.files import remove_temporary_files, storage_errors, writable, write_text_atomically
from maxmahal.settings import Table, to_table, to_toml
from maxmahal.train.config import Settings, what_counts


class RunFolder:
    """The files of one run; all are written atomically."""

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
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise CheckpointError(
                    f"Another process is writing to {self.path}; wait for it or choose another --out."
                ) from error
            remove_temporary_files(self.path)
            yield

    def write_settings(self, settings: Settings) -> None:
        """Write the resolved settings; the file can be used as a preset."""
        write_text_atomically(self.settings, to_toml(to_table(settings)))

    def keep_metrics(self, epochs: int) -> None:
        """Keep the first ``epochs`` lines: later epochs were measured but not saved, and will run again."""
        try:
            lines = self.metrics.read_text(encoding="utf-8").splitlines() if self.metrics.exists() else []
        except (OSError, UnicodeDecodeError) as error:
            raise CheckpointError(f"{self.metrics} cannot be read ({error}); move it away and resume.") from error
        write_text_atomically(self.metrics, "".join(f"{line}\n" for line in lines[:epochs]))

    def append_metrics(self, record: Table) -> None:
        """Append one line of JSON for a finished epoch, and sync it to disk."""
        with storage_errors(self.metrics), self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def read_metrics(self) -> list[Table]:
        """The metrics of all finished epochs."""
        return [json.loads(line) for line in self.metrics.read_text(encoding="utf-8").splitlines()]

    def write_result(self, record: Table) -> None:
        """Write the summary of a finished run."""
        write_text_atomically(self.result, json.dumps(record, indent=2) + "\n")

    def write_diverged(self, epoch: int, settings: Settings) -> None:
        """Record that a training with these settings diverged in this epoch."""
        record = {"epoch": epoch, "settings": what_counts(settings)}
        write_text_atomically(self.diverged, json.dumps(record, indent=2) + "\n")

    def diverged_at(self, settings: Settings) -> int | None:
        """The epoch in which a training with these settings diverged here; None if not recorded."""
        try:
            record = json.loads(self.diverged.read_text(encoding="utf-8"))
            same = record["settings"] == json.loads(json.dumps(what_counts(settings)))
            return int(record["epoch"]) if same else None
        except (OSError, ValueError, KeyError, TypeError):
            return None  # an unreadable file does not prevent another attempt
