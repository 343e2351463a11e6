"""``maxmahal uncertainty``."""

import math
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import maxmahal
from maxmahal.cli.common import DataDir, Trust, pick_device
from maxmahal.errors import SettingsError


def uncertainty_command(
    targets: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Run folders, checkpoints or zoo:NAME; NAME=RUN names one."),
    ],
    ood: Annotated[
        list[str] | None,
        typer.Option(
            help="Strange images: inverted, turned, shifted, scrambled, a data set or an .npz; "
            "may be given several times."
        ),
    ] = None,
    epsilon: Annotated[str, typer.Option(help="How far attacks may go (Linf).")] = "8/255",
    out: Annotated[Path | None, typer.Option(help="Write the record, a .json file.")] = None,
    data: Annotated[str | None, typer.Option(help="Other test images than the runs' own.")] = None,
    trust: Trust = None,
    limit: Annotated[int | None, typer.Option(help="Only the first so many test images.")] = None,
    seed: Annotated[int, typer.Option(help="Of the attacks.")] = 0,
    data_dir: DataDir = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Test whether models know what they do not know: on mistakes, on strange images, and under attacks that hide."""
    if out is not None and out.suffix != ".json":
        raise SettingsError(f"--out must end in .json, for the record; got '{out}'.")
    record = maxmahal.uncertainty.study_models(
        targets,
        strangers=ood or [],
        epsilon=epsilon,
        data=data,
        limit=limit,
        seed=seed,
        trusted=trust or (),
        data_dir=data_dir,
        device=pick_device(device),
    )
    console = Console()
    console.print(_table(record), highlight=False)
    for model in record.models:
        console.print(escape(_sentence(model)), highlight=False)
    if out is not None:
        maxmahal.uncertainty.write_record(out, record)
        console.print(f"Wrote {out}.", highlight=False, markup=False, soft_wrap=True)


def _table(record: "maxmahal.uncertainty.Record") -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), caption="AUROC: 0.5 is guessing, 1 is perfect")
    attacks = (f"attack at {record.epsilon}", "evading attack", "wrong and undetected")
    for column in ("model", "score", "own mistakes", *record.strangers, *attacks):
        table.add_column(escape(column), overflow="fold")
    titles = {score.name: score.title for score in maxmahal.uncertainty.SCORES}
    for model in record.models:
        for each in model.scores:
            strangers = [_auroc(each.strangers[name]) for name in record.strangers]
            attacked = [_auroc(each.ignoring.auroc), _auroc(each.evading.auroc), f"{each.evading.undetected:.1%}"]
            title = escape(titles.get(each.score, each.score))
            table.add_row(escape(model.name), title, _auroc(each.misclassification), *strangers, *attacked)
    return table


def _auroc(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _sentence(model: "maxmahal.uncertainty.ModelResult") -> str:
    return (
        f"{model.name}: {model.accuracy:.1%} right; its softmax is {100 * model.calibration_error:.1f} points from "
        f"calibrated."
    )
