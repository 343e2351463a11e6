"""What a running grid tells whoever watches it, and how a plan reads as plain lines."""

import sys
import time
from collections.abc import Callable
from typing import Literal, Protocol, runtime_checkable

from maxmahal.reproduce.jobs import TrainJob
from maxmahal.reproduce.plan import Cell, Plan, Row

End = Literal["done", "failed", "stopped"]
EVERY = 60.0  # seconds between two lines about the same cell


@runtime_checkable
class Watcher(Protocol):
    """Gets word of every change; the command line makes a live table of it."""

    def begin(self, plan: Plan, jobs: int) -> None:
        """This is about to be done, so many cells at once."""

    def started(self, cell: Cell) -> None:
        """A worker has begun, or goes on."""

    def progress(self, cell: Cell, text: str) -> None:
        """How far a running cell has come; often the same as before."""

    def ended(self, cell: Cell, end: End, text: str) -> None:
        """A worker is through, with how far it came or what went wrong."""

    def note(self, text: str) -> None:
        """A line of its own."""


class Quiet:
    """Nobody watches."""

    def begin(self, plan: Plan, jobs: int) -> None:
        """Nothing."""

    def started(self, cell: Cell) -> None:
        """Nothing."""

    def progress(self, cell: Cell, text: str) -> None:
        """Nothing."""

    def ended(self, cell: Cell, end: End, text: str) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""


class PlainLines:
    """A line for each thing that happens."""

    def __init__(self, say: Callable[[str], object] | None = None) -> None:
        self._say = _say if say is None else say
        self._told: dict[str, tuple[float, str]] = {}

    def begin(self, plan: Plan, jobs: int) -> None:
        """The planned time of every row."""
        for line in plan_lines(plan, jobs):
            self._say(line)

    def started(self, cell: Cell) -> None:
        """Which, and how long it should take."""
        self._told[cell.key] = time.monotonic(), ""
        self._say(f"{cell.row}, {cell.column}: started, about {duration(cell.seconds)}")

    def progress(self, cell: Cell, text: str) -> None:
        """Now and then."""
        told, before = self._told[cell.key]
        if text != before and time.monotonic() - told >= EVERY:
            self._told[cell.key] = time.monotonic(), text
            self._say(f"{cell.row}, {cell.column}: {text}")

    def ended(self, cell: Cell, end: End, text: str) -> None:
        """Done, failed or stopped."""
        self._say(f"{cell.row}, {cell.column}: {end}" + (f", {text}" if text else ""))

    def note(self, text: str) -> None:
        """As it is."""
        self._say(text)


def plan_lines(plan: Plan, jobs: int = 1) -> list[str]:
    """Every row and every cell: what is there, how far it has come, and what is missing."""
    lines = [f"{plan.grid.name}: {plan.grid.about}".rstrip(": ")]
    wide = max(len(row.name) for row in plan.rows)
    for row in plan.rows:
        lines.append(f"  {row.name:<{wide}}  {_left(row)}")
        lines += [f"  {'':<{wide}}    {cell.column}: {describe(cell)}" for cell in row.cells]
    possible = "" if all(cell.state.kind == "done" for cell in plan.cells) else "that can be done "
    several = f", {jobs} at once" if jobs > 1 else ""
    total = f"about {duration(plan.seconds)} of work to do on this device ({plan.device}){several}"
    lines.append(f"In all: {total}." if plan.seconds else f"In all: everything {possible}is done.")
    if plan.missing_data:
        lines.append(f"Before it can start: {plan.missing_data}")
    return lines


def describe(cell: Cell) -> str:
    """The state of a cell in a few words."""
    if cell.state.kind == "done":
        return f"done {cell.state.detail}".rstrip()
    if cell.state.kind == "impossible":
        again = f"; delete {cell.job.out} to try again" if isinstance(cell.job, TrainJob) else ""
        return f"{cell.state.detail}{again}"
    planned = f"about {duration(cell.seconds)}"
    if cell.state.kind == "half":
        return f"half done ({cell.state.detail}), {planned} to go"
    return f"not here, {planned}"


def duration(seconds: float) -> str:
    """As people say it: "40 s", "5 min", "2.5 h", "30 days"."""
    for size, unit, most in ((1.0, "s", 90), (60.0, "min", 90), (3600.0, "h", 36)):
        if seconds / size < most:
            return f"{_rounded(seconds / size, tenths=unit == 'h')} {unit}"
    return f"{_rounded(seconds / 86_400, tenths=True)} days"


def _rounded(count: float, *, tenths: bool) -> str:
    """A whole number, or with a tenth where one more or less would be much."""
    return f"{count:.1f}".removesuffix(".0") if tenths and count < 9.95 else f"{count:.0f}"


def _left(row: Row) -> str:
    if row.seconds:
        return f"about {duration(row.seconds)}"
    return "done" if all(cell.state.kind == "done" for cell in row.cells) else "nothing left to do"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
