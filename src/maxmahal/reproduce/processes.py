"""Worker processes: started with threads of their own, watched through their logs, stopped with all their children."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from maxmahal.files import storage_errors, writable
from maxmahal.reproduce.jobs import PROGRESS, WATCHED, Job, write_job

PATIENCE = 1.0  # seconds between asking a worker to end and making it
TAIL = 20_000  # bytes of a log that are looked at
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


class Worker:
    """One job in a process of its own, which ends with this one."""

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
                [sys.executable, "-P", "-m", "maxmahal.reproduce.worker", str(spec), WATCHED],
                stdin=subprocess.PIPE,  # never written to: it closes when we end
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, **dict.fromkeys(THREADS, str(threads))},
                start_new_session=True,  # Ctrl-C is ours alone to answer
            )

    def poll(self) -> int | None:
        """The exit status, or None as long as it runs."""
        return self._process.poll()

    def progress(self) -> str:
        """The last it has told; empty before its first epoch or chunk."""
        told = [line for line in self._lines() if line.startswith(PROGRESS)]
        return told[-1].removeprefix(PROGRESS) if told else ""

    def last_line(self) -> str:
        """What a worker that failed said at the end."""
        told = [line for line in self._lines() if line.strip() and not line.startswith(PROGRESS)]
        return told[-1].strip() if told else f"no word in {self._log}"

    def stop(self) -> None:
        """It loses an epoch or a chunk at most, and goes on next time."""
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait()
        self.close()

    def wait(self, seconds: float | None) -> int | None:
        """The exit status, or None where that takes longer."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        """Let go of the pipe of a worker that has ended."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def _lines(self) -> list[str]:
        with self._log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(self._from, end - TAIL))
            return file.read().decode("utf-8", errors="replace").splitlines()


def threads_each(jobs: int) -> int:
    """So that no two workers share a core: threads that wait for each other at every step make all of them crawl."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    most = int(asked) if asked.isdecimal() and int(asked) else cores
    return max(1, min(most, cores // jobs))
