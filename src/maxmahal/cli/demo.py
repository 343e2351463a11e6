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
    import torch

    demo = maxmahal.demo  # imported before the time is taken
    # More threads gain little on images of 8 pixels, wait for each other on a busy machine, and change the rounding.
    torch.set_num_threads(1)
    started = time.perf_counter()
    console = Console()
    with TrainingProgress(console, quiet=quiet) as training:
        runs = demo.train_demo(out, epochs=epochs, seed=seed, reporter=training)
    with EvaluationProgress(console, quiet=quiet) as evaluation:
        found = demo.attack_demo(out, runs, limit=limit, reporter=evaluation)
    _print_table(console, found)
    for each in found:
        console.print(f"[bold]{each.name}[/bold]: {each.verdict.headline}", highlight=False)
    seconds = time.perf_counter() - started
    print_line(console, f"\nRecords in {out / 'records'}; {seconds:.0f} s.")
    print_line(console, f"The report, to open in a browser: {out / 'report.html'}")


def _print_table(console: Console, evaluations: list["maxmahal.evaluate.Evaluation"]) -> None:
    first = evaluations[0]
    title = f"Accuracy in % on {first.samples} digits; PGD-50, Linf, epsilon {first.epsilon}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("model")
    for column, header in COLUMNS.items():
        table.add_column(header, justify="right", style="bold" if column == "worst case" else None)
    for each in evaluations:
        rates = {stage.stage.name: stage.accuracy for stage in each.verdict.stages}
        rates["worst case"] = each.verdict.robust
        cells = ["-" if (rate := rates[column]) is None else f"{100 * rate.value:.1f}" for column in COLUMNS]
        table.add_row(each.name, *cells)
    console.print(table)
