"""``maxmahal demo``: the main job on the embedded digits."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from maxmahal.cli.progress import TrainingProgress
from maxmahal.demo import BUDGET, DemoResult, run_demo

COLUMNS = {
    "clean": "clean",
    "own loss": "own\nloss",
    "cross-entropy": "cross-\nentropy",
    "margin": "margin",
    "strongest": "strong-\nest",
    "worst case": "worst\ncase",
    "noise": "noise",
    "rotation": "rotation",
}


def demo_command(
    out: Annotated[Path, typer.Option(help="Where to put the run folders, the record and the picture.")] = Path(
        "runs/demo"
    ),
    epochs: Annotated[
        int | None, typer.Option(help="Train each model for so many epochs (default: the presets').")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the weights, the order and the augmentation.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the table.")] = False,
) -> None:
    """Train SCE, MMC and adversarially trained MMC on the embedded digits, attack them, and show what is left."""
    started = time.perf_counter()
    console = Console()
    with TrainingProgress(console, quiet=quiet) as reporter:
        result = run_demo(out, epochs=epochs, seed=seed, reporter=reporter)
    _print_table(console, result)
    for row in result.rows:
        console.print(f"[bold]{row.title}[/bold]: {row.sentence}", highlight=False)
    seconds = time.perf_counter() - started
    console.print(
        f"\nRecord {result.record}, picture {result.picture}; {seconds:.0f} s.",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _print_table(console: Console, result: DemoResult) -> None:
    limit = f"no pixel moved by more than {BUDGET.threat.epsilon}"
    title = f"Accuracy in % on {result.images} digits; PGD-{BUDGET.steps}, {limit}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("model")
    for column, header in COLUMNS.items():
        table.add_column(header, justify="right", style="bold" if column == "worst case" else None)
    for row in result.rows:
        table.add_row(row.title, *(f"{100 * row.accuracies[column]:.1f}" for column in COLUMNS))
    console.print(table)
