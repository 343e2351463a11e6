"""``maxmahal reproduce``."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live
from rich.markup import escape
from rich.table import Table

import maxmahal
from maxmahal.cli import common
from maxmahal.cli.common import Console, print_line
from maxmahal.errors import SettingsError

STYLES = {"done": "green", "failed": "red", "stopped": "yellow"}


def reproduce_command(
    grid: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            autocompletion=common.completing("grid"),
            help="A grid's name or a .toml file; without it, list the grids.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of runs, records, logs and the report.")] = Path("runs/reproduce"),
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of every training.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what is done and what is missing; start nothing.")
    ] = False,
    budget: common.Budget = None,
    jobs: Annotated[int | None, typer.Option(help="Parallel workers (default: 1 on the CPU, 3 on a GPU).")] = None,
    on: Annotated[str | None, typer.Option(help="ray or slurm: run trainings and evaluations on a cluster.")] = None,
    data_dir: common.DataDir = None,
    device: common.Device = "auto",
    list_all: Annotated[bool, typer.Option("--list", help="List the grids.")] = False,
    show: common.Show = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the summary.")] = False,
) -> None:
    """Train and evaluate a whole grid, such as a table of the paper; if stopped, run the same command to continue."""
    reproduce = maxmahal.reproduce
    console = Console()
    deadline = None if budget is None else reproduce.Deadline.after(reproduce.parse_budget(budget))
    if show is not None:
        common.show_shipped("grid", show)
        return
    if grid is None or list_all:
        common.print_table(console, ("grid", "about"), reproduce.list_grids())
        return
    if str(out) == ".":
        raise SettingsError("--out would fill the current folder; name one, such as --out runs/reproduce.")
    where = device if on else str(maxmahal.train.device.pick_device(device))
    with reproduce.runner.open_place(on, where, jobs) as place:
        plan = reproduce.make_plan(
            reproduce.load_grid(grid), out, device=place.device, overrides=overrides or [], data_dir=data_dir
        )
        if dry_run:
            _print(console, reproduce.plan_lines(plan, place.jobs, on=on))
            return
        live = GridProgress(console) if console.is_terminal and not quiet else None
        lines = reproduce.GridLines(lambda line: print_line(console, line), quiet=quiet)
        reporter: maxmahal.reproduce.GridReporter = live or lines
        with live or nullcontext():
            outcome = reproduce.run_plan(plan, jobs=jobs, deadline=deadline, reporter=reporter, on=on)
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

    def update(
        self, cell: "maxmahal.reproduce.PlanCell", event: "maxmahal.reproduce.reporter.CellEvent", text: str = ""
    ) -> None:
        """Show the planned time, the progress or the result; an error is also printed above the table in full."""
        if event == "started":
            text = f"[bold]started[/bold], about {maxmahal.evaluate.durations.duration(cell.seconds)}"
        elif event == "running":
            text = f"[bold]{escape(text)}[/bold]"
        else:
            if event == "failed":
                self.note(f"{cell.row}, {cell.column}: failed, {text}")
            text = f"[{STYLES[event]}]{event}[/{STYLES[event]}]"
        self._texts[cell.key] = text

    def note(self, text: str) -> None:
        """Print a line above the table."""
        _print(self._console, [text])

    def _table(self) -> Table:
        rows = {} if self._plan is None else self._plan.rows
        columns = list(dict.fromkeys(cell.column for cells in rows.values() for cell in cells))
        table = Table(box=None, pad_edge=False)
        for column in ("model", *columns):
            table.add_column(column, overflow="fold")
        for name, cells in rows.items():
            texts = {cell.column: self._texts[cell.key] for cell in cells}
            table.add_row(escape(name), *(texts.get(column, "") for column in columns))
        return table


def _print(console: Console, lines: list[str]) -> None:
    for line in lines:
        print_line(console, line)
