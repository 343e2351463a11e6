"""``maxmahal reproduce``."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live
from rich.markup import escape
from rich.table import Table

import maxmahal
from maxmahal.cli.common import Console, DataDir, Device, Show, print_line, show_shipped

STYLES = {"done": "green", "failed": "red", "stopped": "yellow"}


def reproduce_command(
    grid: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A grid's name or a .toml file; without it, list the grids.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of runs, records, logs and the report.")] = Path("runs/reproduce"),
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of every training.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what is done and what is missing; start nothing.")
    ] = False,
    budget: Annotated[
        str | None, typer.Option(help="Stop within this time (90s, 8m, 1h30m); run the same command to continue.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Parallel workers (default: 1 on the CPU, 3 on a GPU).")] = None,
    data_dir: DataDir = None,
    device: Device = "auto",
    list_all: Annotated[bool, typer.Option("--list", help="List the grids.")] = False,
    show: Show = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the summary.")] = False,
) -> None:
    """Train and evaluate a whole grid, such as a table of the paper; if stopped, run the same command to continue."""
    reproduce = maxmahal.reproduce
    console = Console()
    deadline = None if budget is None else reproduce.Deadline.after(reproduce.parse_budget(budget))
    if show is not None:
        show_shipped("grid", show)
        return
    if grid is None or list_all:
        _list(console)
        return
    plan = reproduce.plan_grid(grid, out=out, device=device, overrides=overrides or [], data_dir=data_dir)
    if dry_run:
        _print(console, reproduce.plan_lines(plan, jobs or reproduce.default_jobs(plan.device)))
        return
    live = GridProgress(console) if console.is_terminal and not quiet else None
    lines = reproduce.GridLines(lambda line: print_line(console, line), quiet=quiet)
    reporter: maxmahal.reproduce.GridReporter = live or lines
    with live or nullcontext():
        outcome = reproduce.run_plan(plan, jobs=jobs, deadline=deadline, reporter=reporter)
    _print(console, reproduce.result_lines(plan, outcome))
    if not outcome.ok:
        raise typer.Exit(1)


class GridProgress:
    """A live table: one row per model, one column for the training and one per suite."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._plan: maxmahal.reproduce.GridPlan | None = None
        self._texts: dict[str, str] = {}
        self._live = Live(console=console, get_renderable=self._table, refresh_per_second=2)

    def __enter__(self) -> "GridProgress":
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def begin(self, plan: "maxmahal.reproduce.GridPlan", jobs: int) -> None:
        """Print the plan, then start the table."""
        _print(self._console, maxmahal.reproduce.plan_lines(plan, jobs))
        self._plan = plan
        for cell in plan.cells:
            state = cell.state
            style = {"done": "green", "impossible": "red"}.get(state.kind, "dim")
            text = "done" if state.kind == "done" else escape(state.detail) or "waiting"
            self._texts[cell.key] = f"[{style}]{text}[/{style}]"
        self._live.start()

    def started(self, cell: "maxmahal.reproduce.PlanCell") -> None:
        """Show the planned time."""
        self._texts[cell.key] = f"[bold]started[/bold], about {maxmahal.reproduce.reporter.duration(cell.seconds)}"

    def progress(self, cell: "maxmahal.reproduce.PlanCell", text: str) -> None:
        """Show the progress."""
        self._texts[cell.key] = f"[bold]{escape(text)}[/bold]"

    def ended(self, cell: "maxmahal.reproduce.PlanCell", end: "maxmahal.reproduce.reporter.End", text: str) -> None:
        """Show the result; an error is also printed above the table in full."""
        self._texts[cell.key] = f"[{STYLES[end]}]{end}[/{STYLES[end]}]"
        if end == "failed":
            self.note(f"{cell.row}, {cell.column}: failed, {text}")

    def note(self, text: str) -> None:
        """Print a line above the table."""
        _print(self._console, [text])

    def _table(self) -> Table:
        rows = () if self._plan is None else self._plan.rows
        columns = list(dict.fromkeys(cell.column for row in rows for cell in row.cells))
        table = Table(box=None, pad_edge=False)
        for column in ("model", *columns):
            table.add_column(column, overflow="fold")
        for row in rows:
            texts = {cell.column: self._texts[cell.key] for cell in row.cells}
            table.add_row(escape(row.name), *(texts.get(column, "") for column in columns))
        return table


def _list(console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("grid", "about"):
        table.add_column(column, overflow="fold")
    for name, about in maxmahal.reproduce.list_grids():
        table.add_row(name, about)
    console.print(table)


def _print(console: Console, lines: list[str]) -> None:
    for line in lines:
        print_line(console, line)
