"""Jobs of a grid as JSON files, the processes that run them, here or on a cluster, and the GPU that they share."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol

from maxmahal.errors import MaxmahalError
from maxmahal.files import storage_errors, writable, write_text_atomically
from maxmahal.settings import Table


@dataclass(frozen=True)
class Job:
    """What one worker does; it can be written as JSON."""

    kind: Literal["train", "evaluate", "report"]
    arguments: Table  # the keyword arguments of ``train_model``, ``evaluate_models`` or ``write_report``
    until: float | None = None  # the time of ``time.time()``, which all hosts share, at which it must have stopped


PROGRESS = "progress: "  # the prefix of a worker's lines that its parent shows
END_WITH_PARENT = "--end-with-parent"
_GRACE = 1.0  # seconds between SIGTERM and SIGKILL
_TAIL = 20_000  # bytes of a log that are read
_ERRORS = re.compile(r"^ *[\w.]*(?:Error|Exception): .+", re.MULTILINE)  # the last lines of tracebacks
MPS_CONTROL = "nvidia-cuda-mps-control"  # NVIDIA's service that lets several processes share one GPU
_TIMEOUT = 15.0
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


class Process(Protocol):
    """A job that runs somewhere."""

    def wait(self, seconds: float | None) -> int | None:
        """The exit status, or None if it still runs after ``seconds``; an error if it was not run to its end."""

    def stop(self) -> None:
        """End it, if it has not ended."""


class LocalProcess:
    """A job in a process of this machine, which ends when this process ends."""

    def __init__(self, spec: Path, log: Path, threads: int, folder: Path | None = None) -> None:
        """``folder`` is where it runs, if not here."""
        with storage_errors(log), log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "maxmahal.reproduce.worker", str(spec), END_WITH_PARENT],
                stdin=subprocess.PIPE,  # never written to: it closes when this process ends
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, **dict.fromkeys(_THREADS, str(threads))},
                start_new_session=True,  # so that Ctrl-C reaches this process only
                cwd=folder,
            )

    def wait(self, seconds: float | None) -> int | None:
        """The exit status, or None if it still runs after ``seconds``."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self) -> None:
        """End it, if it has not ended, and close its pipe."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is None:
                os.killpg(self._process.pid, number)
                self.wait(_GRACE if number == signal.SIGTERM else None)
        if self._process.stdin is not None:
            self._process.stdin.close()


def execute(folder: str, spec: str, log: str, threads: int) -> int:
    """Run a job to its end, as a worker of a cluster does, in the folder of the driver; returns the exit status."""
    process = LocalProcess(Path(spec), Path(log), threads, Path(folder))
    try:
        return process.wait(None) or 0
    finally:
        process.stop()


@dataclass(frozen=True)
class Place:
    """Where the jobs of a grid run."""

    launch: Callable[[Path, Path, int], Process]  # starts the job of a JSON file, with a log and a number of threads
    jobs: int  # how many run at once
    threads: int  # of each job
    device: str = "cpu"  # of each job: cpu or cuda
    remote: bool = False  # whether jobs run on other hosts, which share the folder of the grid and nothing else


class Worker:
    """One job and its log."""

    def __init__(self, name: str, job: Job, folder: Path, place: Place) -> None:
        self._log, spec = folder / f"{name}.log", folder / f"{name}.json"
        writable(spec, folder.parent)
        write_text_atomically(spec, json.dumps(asdict(job), indent=2) + "\n")
        with storage_errors(self._log), writable(self._log, folder.parent).open("ab") as file:
            file.write(f"started {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC\n".encode())
            self._from = file.tell()
        self._process = place.launch(spec.absolute(), self._log.absolute(), place.threads)

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
        self._process.stop()

    def wait(self, seconds: float | None) -> int | None:
        """The exit status, or None if it still runs after ``seconds``."""
        try:
            return self._process.wait(seconds)
        except MaxmahalError as error:  # of the cluster: the job could write nothing
            text = str(error.__cause__ or error)
            told = _ERRORS.findall(text) or text.splitlines()[:1]
            with storage_errors(self._log), self._log.open("ab") as file:
                file.write("\n".join(["", text, *told[-1:], ""]).encode())
            return 1

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


@contextmanager
def shared_gpu(note: Callable[[str], None]) -> Iterator[None]:
    """Run the service during the block; a service that was already running is used and not stopped."""
    started = False
    if shutil.which(MPS_CONTROL) is not None and not _send("get_server_list"):
        try:
            subprocess.run([MPS_CONTROL, "-d"], check=True, capture_output=True, timeout=_TIMEOUT)
            started = True
        except (OSError, subprocess.SubprocessError) as error:
            note(f"{MPS_CONTROL} did not start ({error}), so trainings take turns on the GPU.")
    try:
        yield
    finally:
        if started and not _send("quit"):
            note(f"{MPS_CONTROL} did not stop; `echo quit | {MPS_CONTROL}` stops it.")


def _send(command: str) -> bool:
    """Whether a running service accepted the command."""
    try:
        done = subprocess.run(
            [MPS_CONTROL], input=f"{command}\n", text=True, capture_output=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
