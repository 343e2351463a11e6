"""``maxmahal demo``."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

import maxmahal
from maxmahal.cli.common import Console, print_line
from maxmahal.cli.progress import EvaluationProgress, TrainingProgress
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
    out: Annotated[Path, typer.Option(help="Folder of the runs, the records and the report.")] = Path("runs/demo"),
    epochs: Annotated[int | None, typer.Option(help="Epochs of each training (default: those of the presets).")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the weights, the order and the augmentation.")] = 0,
    limit: Annotated[int | None, typer.Option(help="Attack only the first N test images.", metavar="N")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the table.")] = False,
) -> None:
    """Train SCE, MMC and adversarial MMC on the embedded digits, attack them, and show their robust accuracy."""
    if limit is not None and limit < 1:
        raise SettingsError(f"--limit must be at least 1; got {limit}.")  # before minutes of training
    demo = maxmahal.demo  # imported before the time is taken
    started = time.perf_counter()
    console = Console()
    with TrainingProgress(console, quiet=quiet) as training:
        runs = demo.train_demo(out, epochs=epochs, seed=seed, reporter=training)
    with EvaluationProgress(console, quiet=quiet) as evaluation:
        result = demo.attack_demo(out, runs, limit=limit, reporter=evaluation)
    _print_table(console, result)
    for row in result.rows:
        console.print(f"[bold]{row.title}[/bold]: {row.sentence}", highlight=False)
    seconds = time.perf_counter() - started
    print_line(
        console, f"\nRecords in {result.records}; {seconds:.0f} s.\nThe report, to open in a browser: {result.page}"
    )


def _print_table(console: Console, result: "maxmahal.demo.DemoResult") -> None:
    first = result.rows[0].evaluation
    title = f"Accuracy in % on {first.samples} digits; PGD-50, Linf, epsilon {first.epsilon}"
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
