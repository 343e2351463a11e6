"""``maxmahal demo``."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

import maxmahal
from maxmahal.cli.progress import TrainingProgress
from maxmahal.cli.watching import EvaluationProgress
from maxmahal.errors import SettingsError

COLUMNS = {
    "clean": "clean",
    "own-loss": "own\nloss",
    "cross-entropy": "cross-\nentropy",
    "margin": "margin",
    "worst case": "worst\ncase",
    "noise": "noise",
    "rotation": "rotation",
}


def demo_command(
    out: Annotated[Path, typer.Option(help="Where to put the runs, the records and the report.")] = Path("runs/demo"),
    epochs: Annotated[
        int | None, typer.Option(help="Train each model for so many epochs (default: the presets').")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the weights, the order and the augmentation.")] = 0,
    limit: Annotated[int | None, typer.Option(help="Attack only the first so many test images.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the table.")] = False,
) -> None:
    """Train SCE, MMC and adversarially trained MMC on the embedded digits, attack them, and show what is left."""
    if limit is not None and limit < 1:
        raise SettingsError(f"--limit must be at least 1; got {limit}.")  # before minutes of training
    demo = maxmahal.demo  # imported before the clock runs
    started = time.perf_counter()
    console = Console()
    with TrainingProgress(console, quiet=quiet) as training:
        runs = demo.train_demo(out, epochs=epochs, seed=seed, reporter=training)
    with EvaluationProgress(console, quiet=quiet) as watching:
        result = demo.attack_demo(out, runs, limit=limit, reporter=watching)
    _print_table(console, result)
    for row in result.rows:
        console.print(f"[bold]{row.title}[/bold]: {row.sentence}", highlight=False)
    seconds = time.perf_counter() - started
    console.print(
        f"\nRecords in {result.records}; {seconds:.0f} s.\nThe report, to open in a browser: {result.page}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _print_table(console: Console, result: "maxmahal.demo.DemoResult") -> None:
    first = result.rows[0].evaluation
    title = f"Accuracy in % on {first.samples} digits; PGD-50, no pixel moved by more than {first.epsilon}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("model")
    for column, header in COLUMNS.items():
        table.add_column(header, justify="right", style="bold" if column == "worst case" else None)
    for row in result.rows:
        table.add_row(row.title, *(_cell(row, column) for column in COLUMNS))
    console.print(table)


def _cell(row: "maxmahal.demo.DemoRow", column: str) -> str:
    value = row.verdict.robust.value if column == "worst case" else row.accuracy(column)
    return "-" if value is None else f"{100 * value:.1f}"
