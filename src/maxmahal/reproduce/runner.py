"""Run a plan: several workers at once, within a time limit; stopped work is resumed by the next call."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from maxmahal.errors import DataError, MaxmahalError, SettingsError, did_you_mean
from maxmahal.imports import integration
from maxmahal.records import merge_records
from maxmahal.records.schema import FILE
from maxmahal.records.shards import Shard
from maxmahal.reproduce.jobs import LocalProcess, Place, Worker, execute, shared_gpu, threads_each
from maxmahal.reproduce.plan import TRAINING, GridOutcome, GridPlan, PlanCell
from maxmahal.reproduce.reporter import GridLines, GridReporter
from maxmahal.settings import Table

POLL = 0.2  # seconds between checks of the workers
PLACES = {"ray": "ray", "slurm": "submitit"}  # the integrations that run jobs elsewhere
WHOLE = Shard(0, 1)  # the one that an evaluation elsewhere consists of
JOBS = {"cpu": 1, "cuda": 3}  # default number of workers; one small training leaves most of a large GPU idle
_BUDGET = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def parse_budget(text: str) -> float:
    """Seconds of "90s", "8m", "1h" or "1h30m"."""
    match = _BUDGET.fullmatch(text.strip())
    seconds = 0.0
    if match is not None:
        hours, minutes, rest = (int(part or 0) for part in match.groups())
        seconds = 3600.0 * hours + 60.0 * minutes + rest
    if not seconds:
        raise SettingsError(f"--budget {text} is not a time; write for example 90s, 8m or 1h30m.")
    return seconds


@dataclass(frozen=True)
class Deadline:
    """Times of ``time.monotonic()``, which is the same clock for all processes of a machine."""

    workers: float
    """When workers should have stopped by themselves, after an epoch or a chunk."""
    stop: float
    """When the remaining workers are stopped; they lose the current epoch or chunk."""
    end: float
    """When everything must have ended, the report included."""

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        """Counted from the start of this process, approximately: its CPU time so far is subtracted."""
        end = time.monotonic() - time.process_time() + seconds
        reserve = min(max(0.04 * seconds, 2.0), 30.0)
        return cls(workers=end - 2 * reserve, stop=end - reserve, end=end - 0.2 * reserve)


def default_jobs(device: str) -> int:
    """The default number of workers on a device."""
    return JOBS[device.partition(":")[0]]


def run_plan(
    plan: GridPlan,
    *,
    jobs: int | None = None,
    deadline: Deadline | None = None,
    reporter: GridReporter | None = None,
    on: str | None = None,
) -> GridOutcome:
    """Run the missing cells, up to ``jobs`` at once, until all are done or the ``deadline`` comes; then report.

    They run on this machine, on the cluster of ``on="ray"``, or as jobs of ``on="slurm"``; other hosts must share the
    folder of the grid.
    """
    with open_place(on, plan.device, jobs) as place:
        if plan.missing_data:
            raise DataError(plan.missing_data)
        return _Runner(plan, place, deadline, GridLines(quiet=True) if reporter is None else reporter).run()


@contextmanager
def open_place(on: str | None, device: str, jobs: int | None) -> Iterator[Place]:
    """This machine, or the cluster ``on``, which may have devices that this machine does not have."""
    if on is not None and on not in PLACES:
        raise SettingsError(f"--on {on} is unknown; {did_you_mean(on, PLACES)}")
    if jobs is not None and jobs < 1:
        raise SettingsError(f"--jobs must be at least 1; got {jobs}.")
    if on is None:
        count = default_jobs(device) if jobs is None else jobs
        yield Place(LocalProcess, count, threads_each(count), device)
        return
    with integration(PLACES[on]).open_place(execute, device, jobs) as (launch, count, threads, where):
        yield Place(launch, count, threads, where, remote=True)


class _Runner:
    def __init__(self, plan: GridPlan, place: Place, deadline: Deadline | None, reporter: GridReporter) -> None:
        self._plan, self._place, self._deadline, self._reporter = plan, place, deadline, reporter
        self._jobs = place.jobs
        self._logs = plan.out / "logs"
        self._waiting = [cell for cell in plan.cells if not cell.state.ended]
        self._running: dict[str, tuple[PlanCell, Worker]] = {}
        self._trained = {cell.row for cell in plan.cells if cell.column == TRAINING and cell.state.kind == "done"}
        self._outcome = GridOutcome()
        # The first worker on a GPU compiles kernels; the others find them on disk.
        self._warm = plan.device == "cpu" or place.remote

    def run(self) -> GridOutcome:
        self._reporter.begin(self._plan, self._jobs)
        on_gpu = self._plan.device != "cpu" and not self._place.remote
        with shared_gpu(self._reporter.note) if on_gpu and self._jobs > 1 and self._waiting else nullcontext():
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
            self._collect()
            if self._deadline is not None and time.monotonic() >= self._deadline.stop:
                for key, (stopped, worker) in list(self._running.items()):
                    worker.stop()
                    del self._running[key]
                    self._end(stopped)
                return
            while (cell := self._next()) is not None:
                self._start(cell)
            if not self._running:
                return
            time.sleep(POLL)

    def _next(self) -> PlanCell | None:
        """The first cell that can start now, if any."""
        if len(self._running) >= (self._jobs if self._warm else 1):
            return None
        if self._deadline is not None and time.monotonic() >= self._deadline.workers:
            return None
        return next((cell for cell in self._waiting if self._trained.issuperset(cell.needs)), None)

    def _start(self, cell: PlanCell) -> None:
        self._waiting.remove(cell)
        until = None if self._deadline is None else time.time() + self._deadline.workers - time.monotonic()
        changes: Table = {}
        if cell.column == TRAINING:
            changes = {"sharing": 1 if self._place.remote else self._jobs}
        elif self._place.remote:  # hosts cannot write one file of records together
            changes = {"out": str(self._own_records(cell)), "shard": str(WHOLE)}
            self._hand_over(cell)
        job = replace(cell.job, until=until, arguments=cell.job.arguments | changes)
        worker = Worker(cell.key, job, self._logs, self._place)
        self._running[cell.key] = cell, worker
        self._reporter.update(cell, "started")

    def _collect(self) -> None:
        for key, (cell, worker) in list(self._running.items()):
            text = worker.progress()
            code = worker.wait(0.0)
            if code is None:
                self._warm = self._warm or bool(text)
                if text:
                    self._reporter.update(cell, "running", text)
                continue
            del self._running[key]
            worker.stop()
            self._warm = True
            if code:
                self._fail(cell, worker.last_line())
            else:
                self._end(cell)

    def _fail(self, cell: PlanCell, text: str) -> None:
        self._outcome.failed[cell.key] = text
        self._reporter.update(cell, "failed", text)

    def _end(self, cell: PlanCell) -> None:
        """A worker that ended without an error has finished, or has stopped because of the deadline."""
        if self._place.remote and cell.column != TRAINING and self._own_records(cell).exists():
            try:
                merge_records(self._plan.out / "records", [self._own_records(cell)])
            except MaxmahalError as error:
                self._fail(cell, str(error))
                return
        state = cell.look()
        if state.kind == "done" and cell.column == TRAINING:
            self._trained.add(cell.row)
        self._reporter.update(cell, "done" if state.kind == "done" else "stopped", state.detail)

    def _own_records(self, cell: PlanCell) -> Path:
        return self._plan.out / "records" / cell.key

    def _hand_over(self, cell: PlanCell) -> None:
        """Let a job continue what this machine began: chunks of another size could not be merged."""
        own = self._own_records(cell)
        if cell.look().kind == "half" and not (own / WHOLE.file).exists():
            merge_records(own, [self._plan.out / "records"])
            (own / FILE).rename(own / WHOLE.file)

    def _report(self) -> None:
        job = self._plan.report()
        shown = [cell for cell in self._plan.cells if cell.evaluations or not job.arguments["wanted"]]
        if not any(state.kind in ("done", "half") or state.share for state in (cell.look() for cell in shown)):
            return  # there is nothing to show yet
        left = None if self._deadline is None else self._deadline.end - time.monotonic()
        if left is not None and left <= 0:
            self._reporter.note("There was no time left for the report.")
            return
        worker = Worker(f"{self._plan.grid.name}--report", job, self._logs, Place(LocalProcess, 1, threads_each(1)))
        try:
            code = worker.wait(left)
        finally:
            worker.stop()
        if code is None:
            self._reporter.note("There was no time left for the report.")
        elif code:
            self._outcome.failed["report"] = worker.last_line()
            self._reporter.note(f"The report failed: {self._outcome.failed['report']}")
        else:
            self._outcome.page = self._plan.page
