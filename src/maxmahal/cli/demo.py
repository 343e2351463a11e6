"""``maxmahal demo``: the main job on the embedded digits."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from maxmahal.cli.progress import TrainingProgress
from maxmahal.demo import BUDGET, DemoResult, run_demo

COLUMNS = ("clean", "own loss", "cross-entropy", "margin", "margin, each class", "worst case", "noise", "rotation")


def demo_command(
    out: Annotated[Path, typer.Option(help="Where to put the run folders, the record and the picture.")] = Path(
        "runs/demo"
    ),
    epochs: Annotated[
        int | None, typer.Option(help="Train each model for so many epochs [default: the presets'].")
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
        f"\nRecord {result.record}, picture {result.picture}; {seconds:.0f} s.", highlight=False, soft_wrap=True
    )


def _print_table(console: Console, result: DemoResult) -> None:
    title = f"Accuracy in % on 500 digits; PGD-{BUDGET.steps}, no pixel moved by more than {BUDGET.threat.epsilon}"
    table = Table(title=title, title_justify="left")
    table.add_column("model")
    for column in COLUMNS:
        table.add_column(column, justify="right", style="bold" if column == "worst case" else None)
    for row in result.rows:
        table.add_row(row.title, *(f"{100 * row.accuracies[column]:.1f}" for column in COLUMNS))
    console.print(table)
