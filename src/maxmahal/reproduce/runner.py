"""Run a plan: several workers at once, within a time limit; whatever is stopped goes on next time."""

import time
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from maxmahal.errors import DataError, SettingsError
from maxmahal.reproduce.budget import Deadline
from maxmahal.reproduce.jobs import TrainJob
from maxmahal.reproduce.mps import shared_gpu
from maxmahal.reproduce.plan import TRAINING, Cell, Plan
from maxmahal.reproduce.processes import Worker, threads_each
from maxmahal.reproduce.watch import End, Quiet, Watcher

POLL = 0.2  # seconds between looks at the workers
JOBS = {"cpu": 1, "cuda": 3}  # at once, where nobody says; one small training leaves most of a large GPU idle


@dataclass
class Outcome:
    """What a call came to."""

    page: Path | None = None
    """The report, where there was something to report and time to write it."""
    failed: dict[str, str] = field(default_factory=dict)
    """What went wrong, by the key of the cell."""
    left: list[Cell] = field(default_factory=list)
    """What is still to be done, failed ones included."""
    impossible: list[Cell] = field(default_factory=list)
    """Trainings that diverged, in this call or before, and what needs them; no call tries them again."""

    @property
    def whole(self) -> bool:
        """Whether nothing went wrong; what there was no time for has not."""
        return not self.failed and not self.impossible


def default_jobs(device: str) -> int:
    """How many workers to run at once."""
    return JOBS[device.partition(":")[0]]


def run_plan(
    plan: Plan, *, jobs: int | None = None, deadline: Deadline | None = None, watcher: Watcher | None = None
) -> Outcome:
    """Do what is missing, up to ``jobs`` cells at once, until all is done or the ``deadline`` comes; then report."""
    count = default_jobs(plan.device) if jobs is None else jobs
    if count < 1:
        raise SettingsError(f"--jobs must be at least 1; got {count}.")
    if plan.missing_data:
        raise DataError(plan.missing_data)
    runner = _Runner(plan, count, deadline, Quiet() if watcher is None else watcher)
    return runner.run()


class _Runner:
    def __init__(self, plan: Plan, jobs: int, deadline: Deadline | None, watcher: Watcher) -> None:
        self._plan, self._jobs, self._deadline, self._watcher = plan, jobs, deadline, watcher
        self._logs = plan.out / "logs"
        self._waiting = [cell for cell in plan.cells if not cell.state.ended]
        self._running: dict[str, tuple[Cell, Worker]] = {}
        self._trained = {cell.row for cell in plan.cells if cell.column == TRAINING and cell.state.kind == "done"}
        self._outcome = Outcome()
        # What the first worker on a GPU compiles, the others find on the disk.
        self._warm = plan.device == "cpu"

    def run(self) -> Outcome:
        self._watcher.begin(self._plan, self._jobs)
        on_gpu = self._plan.device != "cpu"
        with shared_gpu(self._watcher.note) if on_gpu and self._jobs > 1 and self._waiting else nullcontext():
            try:
                self._work()
            finally:
                for _, worker in self._running.values():
                    worker.stop()
        now = [(cell, cell.look()) for cell in self._plan.cells]
        self._outcome.left = [cell for cell, state in now if not state.ended]
        self._outcome.impossible = [replace(cell, state=state) for cell, state in now if state.kind == "impossible"]
        self._report()
        return self._outcome

    def _work(self) -> None:
        while True:
            self._reap()
            if self._deadline is not None and time.monotonic() >= self._deadline.stop:
                self._stop_all()
                return
            while (cell := self._next()) is not None:
                self._start(cell)
            if not self._running:
                return
            time.sleep(POLL)

    def _next(self) -> Cell | None:
        """The first that can start now, if any."""
        if len(self._running) >= (self._jobs if self._warm else 1):
            return None
        if self._deadline is not None and time.monotonic() >= self._deadline.workers:
            return None
        return next((cell for cell in self._waiting if self._trained.issuperset(cell.needs)), None)

    def _start(self, cell: Cell) -> None:
        self._waiting.remove(cell)
        until = None if self._deadline is None else self._deadline.workers
        job = replace(cell.job, sharing=self._jobs) if isinstance(cell.job, TrainJob) else cell.job
        worker = Worker(cell.key, job, self._logs, threads=threads_each(self._jobs), until=until)
        self._running[cell.key] = cell, worker
        self._watcher.started(cell)

    def _reap(self) -> None:
        for key, (cell, worker) in list(self._running.items()):
            text = worker.progress()
            code = worker.poll()
            if code is None:
                self._warm = self._warm or bool(text)
                if text:
                    self._watcher.progress(cell, text)
                continue
            del self._running[key]
            worker.close()
            self._warm = True
            if code:
                self._outcome.failed[key] = worker.last_line()
                self._watcher.ended(cell, "failed", self._outcome.failed[key])
            else:
                self._end(cell)

    def _end(self, cell: Cell) -> None:
        """A worker that ended well has either finished, or stopped for want of time."""
        state = cell.look()
        end: End = "done" if state.kind == "done" else "stopped"
        if end == "done" and cell.column == TRAINING:
            self._trained.add(cell.row)
        self._watcher.ended(cell, end, state.detail)

    def _stop_all(self) -> None:
        for key, (cell, worker) in list(self._running.items()):
            worker.stop()
            del self._running[key]
            self._end(cell)

    def _report(self) -> None:
        job = self._plan.report()
        shown = [cell for cell in self._plan.cells if cell.identities or not job.wanted]
        if not any(state.kind in ("done", "half") or state.share for state in (cell.look() for cell in shown)):
            return  # there is nothing to show yet
        left = None if self._deadline is None else self._deadline.end - time.monotonic()
        if left is not None and left <= 0:
            self._watcher.note("There was no time left for the report.")
            return
        worker = Worker(f"{self._plan.grid.name}--report", job, self._logs, threads=threads_each(1), until=None)
        try:
            code = worker.wait(left)
        finally:
            worker.stop()
        if code is None:
            self._watcher.note("There was no time left for the report.")
        elif code:
            self._outcome.failed["report"] = worker.last_line()
            self._watcher.note(f"The report failed: {self._outcome.failed['report']}")
        else:
            self._outcome.page = self._plan.page
