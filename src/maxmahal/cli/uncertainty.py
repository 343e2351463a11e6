"""``maxmahal uncertainty``."""

import math
from pathlib import Path
from typing import Annotated

import typer

import maxmahal
from maxmahal.cli.common import (
    Console,
    DataDir,
    Device,
    Limit,
    Trusted,
    completing,
    pick_device,
    print_line,
    print_table,
)
from maxmahal.errors import SettingsError


def uncertainty_command(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            autocompletion=completing("zoo"),
            help="Run folders, checkpoints or zoo:NAME; NAME=RUN names one.",
        ),
    ],
    ood: Annotated[
        list[str] | None,
        typer.Option(
            help="Out-of-distribution images: inverted, turned, shifted, scrambled, a data set or an .npz; "
            "may be given several times."
        ),
    ] = None,
    epsilon: Annotated[str, typer.Option(help="Radius of the attacks (Linf).")] = "8/255",
    out: Annotated[Path | None, typer.Option(help="Write the record, a .json file.")] = None,
    data: Annotated[str | None, typer.Option(help="Other test images than the runs' own.")] = None,
    trust: Trusted = None,
    limit: Limit = None,
    seed: Annotated[int, typer.Option(help="Seed of the attacks.")] = 0,
    data_dir: DataDir = None,
    device: Device = "auto",
) -> None:
    """Measure scores of uncertainty: on errors, on out-of-distribution images, and under attacks that evade them."""
    if out is not None and out.suffix != ".json":
        raise SettingsError(f"--out must end in .json, for the record; got '{out}'.")
    record = maxmahal.uncertainty.study_models(
        targets,
        ood=ood or [],
        epsilon=epsilon,
        data=data,
        limit=limit,
        seed=seed,
        trusted=trust or (),
        data_dir=data_dir,
        device=pick_device(device),
    )
    console = Console()
    _print_table(console, record)
    for model in record.models:
        calibration = f"calibration error of its softmax {100 * model.calibration_error:.1f} points"
        print_line(console, f"{model.name}: accuracy {model.accuracy:.1%}; {calibration}.")
    if out is not None:
        maxmahal.uncertainty.write_record(out, record)
        print_line(console, f"Wrote {out}.")


def _print_table(console: Console, record: "maxmahal.uncertainty.UncertaintyRecord") -> None:
    attacks = (f"attack at {record.epsilon}", "evading attack", "wrong and undetected")
    titles = {score.name: score.title for score in maxmahal.uncertainty.SCORES}
    rows = []
    for model in record.models:
        for each in model.scores:
            aurocs = (each.misclassification, *each.ood.values(), each.ignoring.auroc, each.evading.auroc)
            shown = ["-" if math.isnan(value) else f"{value:.3f}" for value in aurocs]
            rows.append((model.name, titles.get(each.score, each.score), *shown, f"{each.evading.undetected:.1%}"))
    columns = ("model", "score", "errors", *record.ood, *attacks)
    print_table(console, columns, rows, ruled=True, caption="AUROC: 0.5 is chance, 1 is perfect")
