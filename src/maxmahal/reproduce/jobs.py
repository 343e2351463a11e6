"""Jobs of a grid as JSON files, and the worker processes that run them."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from maxmahal.files import parse_json, read_text, storage_errors, writable, write_text_atomically
from maxmahal.settings import Table


@dataclass(frozen=True)
class TrainJob:
    """Train one model, or resume its training."""

    settings: Table
    out: str
    device: str
    data_dir: str | None
    sharing: int = 1
    """The number of workers that share the device."""


@dataclass(frozen=True)
class EvaluateJob:
    """One suite on one model, or on several models if attacks are transferred between them."""

    targets: dict[str, str]
    data: str
    out: str
    suite: str
    limit: int | None
    transfer: bool
    device: str
    data_dir: str | None
    trusted: list[str] = field(default_factory=list)
    """Code that the grid's presets name: ``module:function``."""
    epsilon: str | None = None
    """Replaces the suite's epsilon."""


@dataclass(frozen=True)
class ReportJob:
    """The report of a grid."""

    records: str
    wanted: list[list[str | int | float]]
    """The ``EvaluationKey`` of each evaluation to show, in this order."""
    runs: dict[str, str]
    """Run folders by name, for a grid that evaluates nothing."""
    title: str
    out: str


PROGRESS = "progress: "  # the prefix of a worker's lines that its parent shows
END_WITH_PARENT = "--end-with-parent"
_GRACE = 1.0  # seconds between SIGTERM and SIGKILL
_TAIL = 20_000  # bytes of a log that are read
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")

Job = TrainJob | EvaluateJob | ReportJob
_KINDS: dict[str, type[Job]] = {"train": TrainJob, "evaluate": EvaluateJob, "report": ReportJob}


def write_job(path: Path, job: Job, until: float | None) -> None:
    """``until`` is the time of ``time.monotonic()`` at which the job must have stopped."""
    kind = next(name for name, cls in _KINDS.items() if isinstance(job, cls))
    write_text_atomically(path, json.dumps({"kind": kind, "until": until, "job": asdict(job)}, indent=2) + "\n")


def read_job(path: Path) -> tuple[Job, float | None]:
    """The inverse of ``write_job``."""
    table = parse_json(read_text(path))
    return _KINDS[table["kind"]](**table["job"]), table["until"]


class Worker:
    """One job in its own process, which ends when this process ends."""

    def __init__(self, name: str, job: Job, folder: Path, *, threads: int, until: float | None) -> None:
        self._log, spec = folder / f"{name}.log", folder / f"{name}.json"
        write_job(writable(spec, folder.parent), job, until)
        with storage_errors(self._log):
            file = writable(self._log, folder.parent).open("ab")
        with file:
            file.write(f"started {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC\n".encode())
            file.flush()
            self._from = file.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "maxmahal.reproduce.worker", str(spec), END_WITH_PARENT],
                stdin=subprocess.PIPE,  # never written to: it closes when this process ends
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, **dict.fromkeys(_THREADS, str(threads))},
                start_new_session=True,  # so that Ctrl-C reaches this process only
            )

    def poll(self) -> int | None:
        """The exit status, or None while it runs."""
        return self._process.poll()

    def progress(self) -> str:
        """Its last progress line; empty before the first epoch or chunk."""
        lines = [line for line in self._lines() if line.startswith(PROGRESS)]
        return lines[-1].removeprefix(PROGRESS) if lines else ""

    def last_line(self) -> str:
        """The last line of its log, for a worker that failed."""
        lines = [line for line in self._lines() if line.strip() and not line.startswith(PROGRESS)]
        return lines[-1].strip() if lines else f"no message in {self._log}"

    def stop(self) -> None:
        """Stop it; at most one epoch or chunk is lost, and the next call resumes it."""
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait()
        self.close()

    def wait(self, seconds: float | None) -> int | None:
        """The exit status, or None after ``seconds``."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        """Close the pipe of a worker that has ended."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def _lines(self) -> list[str]:
        with self._log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(self._from, end - _TAIL))
            return file.read().decode("utf-8", errors="replace").splitlines()


def threads_each(jobs: int) -> int:
    """Threads per worker, so that no two workers share a core, which would slow down all of them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    most = int(asked) if asked.isdecimal() and int(asked) else cores
    return max(1, min(most, cores // jobs))
