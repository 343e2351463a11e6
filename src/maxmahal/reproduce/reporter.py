"""What a running grid reports, and its plan and result as lines of text."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Literal, Protocol, runtime_checkable

from maxmahal.evaluate.durations import duration
from maxmahal.reproduce.plan import TRAINING, GridOutcome, GridPlan, PlanCell

CellEvent = Literal["started", "running", "done", "failed", "stopped"]
_INTERVAL = 60.0  # seconds between two lines about the same cell


@runtime_checkable
class GridReporter(Protocol):
    """Called on every change; the command line shows a live table."""

    def begin(self, plan: GridPlan, jobs: int) -> None:
        """The plan is about to run, with up to ``jobs`` cells at once."""

    def update(self, cell: PlanCell, event: CellEvent, text: str = "") -> None:
        """A worker has started, made progress (often with the same text as before) or ended (with its error)."""

    def note(self, text: str) -> None:
        """A message about the whole grid."""


class GridLines:
    """Prints one line per event, or nothing if it is ``quiet``."""

    def __init__(self, write: Callable[[str], object] | None = None, *, quiet: bool = False) -> None:
        self._write = (lambda _: None) if quiet else write or write_line
        self._printed: dict[str, tuple[float, str]] = {}

    def begin(self, plan: GridPlan, jobs: int) -> None:
        """The plan with its times."""
        for line in plan_lines(plan, jobs):
            self._write(line)

    def update(self, cell: PlanCell, event: CellEvent, text: str = "") -> None:
        """One line; about progress, at most one per minute and cell."""
        line = f"{event}, {text}" if text else event
        if event == "started":
            line = f"started, about {duration(cell.seconds)}"
        elif event == "running":
            last, before = self._printed[cell.key]
            if text == before or time.monotonic() - last < _INTERVAL:
                return
            line = text
        self._printed[cell.key] = time.monotonic(), text
        self._write(f"{cell.row}, {cell.column}: {line}")

    def note(self, text: str) -> None:
        """The text as it is."""
        self._write(text)


def plan_lines(plan: GridPlan, jobs: int = 1, *, on: str | None = None) -> list[str]:
    """Every row and every cell: done, partly done or missing, with planned times.

    On a cluster each job has a device of its own, so the time of ``jobs`` workers can be told.
    """
    lines = [f"{plan.grid.name}: {plan.grid.about}".rstrip(": ")]
    wide = max(map(len, plan.rows))
    for name, cells in plan.rows.items():
        lines.append(f"  {name:<{wide}}  {_left(cells)}")
        lines += [f"  {'':<{wide}}    {cell.column}: {describe(cell)}" for cell in cells]
    possible = "" if all(cell.state.kind == "done" for cell in plan.cells) else "that can be done "
    several = f", {jobs} at once" if jobs > 1 else ""
    total = f"about {duration(plan.seconds)} of work to do on this device ({plan.device}){several}"
    total += f": about {duration(makespan(plan, jobs))} on {jobs} worker{'s' * (jobs > 1)}" if on else ""
    lines.append(f"In all: {total}." if plan.seconds else f"In all: everything {possible}is done.")
    if in_zoo := [cell for cell in plan.cells if cell.zoo and not cell.state.ended]:
        trainings = sum(cell.column == TRAINING for cell in plan.cells)
        names = ", ".join(cell.zoo for cell in in_zoo)
        lines.append(
            f"Trained already with the same settings, in the zoo: {len(in_zoo)} of {trainings} models ({names}); "
            "`maxmahal evaluate zoo:NAME` attacks them without a training."
        )
    if plan.missing_data:
        lines.append(f"Before it can start: {plan.missing_data}")
    return lines


def makespan(plan: GridPlan, jobs: int) -> float:
    """The seconds until the last cell ends, with so many workers that each take the next cell that can start."""
    free, ends = [0.0] * jobs, {cell.row: 0.0 for cell in plan.cells}
    for cell in plan.cells:  # trainings first
        begin = max([min(free), *(ends[name] for name in cell.needs)])
        free[free.index(min(free))] = end = begin + cell.seconds
        if cell.column == TRAINING:
            ends[cell.row] = end
    return max(free)


def describe(cell: PlanCell) -> str:
    """The state of a cell in a few words."""
    if cell.state.kind == "done":
        return f"done {cell.state.detail}".rstrip()
    if cell.state.kind == "impossible":
        again = f"; delete {cell.job.arguments['out']} to try again" if cell.column == TRAINING else ""
        return f"{cell.state.detail}{again}"
    planned = f"about {duration(cell.seconds)}"
    if cell.state.kind == "half":
        return f"partly done ({cell.state.detail}), {planned} left"
    return f"missing, {planned}"


def result_lines(plan: GridPlan, outcome: GridOutcome) -> list[str]:
    """What failed, what is left to do, and where the report is."""
    lines = []
    if outcome.failed:
        lines += [f"failed: {key}: {text}" for key, text in outcome.failed.items()]
        again = outcome.failed.keys() - {cell.key for cell in outcome.impossible}
        lines.append(f"The logs are in {plan.out / 'logs'}{'; run the same command to try again' if again else ''}.")
    lines += [f"{cell.row} {cell.column}: {describe(cell)}." for cell in outcome.impossible]
    stopped = [cell for cell in outcome.left if cell.key not in outcome.failed]
    if outcome.left:
        shares = [(cell.seconds, 1 - cell.state.share, 1 - cell.look().share) for cell in outcome.left]
        seconds = sum(planned * now / before if before else 0.0 for planned, before, now in shares)
        names = ", ".join(f"{cell.row} {cell.column}" for cell in outcome.left[:4])
        more = f" and {len(outcome.left) - 4} more" if len(outcome.left) > 4 else ""
        lines.append(f"Left to do, about {duration(seconds)}: {names}{more}.")
        if stopped and not outcome.failed:
            lines.append("Run the same command to continue.")
    if outcome.page is not None:
        lines.append(f"The report, to open in a browser: {outcome.page}")
    return lines


def _left(cells: Sequence[PlanCell]) -> str:
    if seconds := sum(cell.seconds for cell in cells):
        return f"about {duration(seconds)}"
    return "done" if all(cell.state.kind == "done" for cell in cells) else "nothing left to do"


def write_line(text: str) -> None:
    """Print a line at once, to a log as well."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
