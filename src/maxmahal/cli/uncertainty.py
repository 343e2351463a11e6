"""``maxmahal uncertainty``."""

import math
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

import maxmahal
from maxmahal.cli.common import Console, DataDir, Trusted, pick_device
from maxmahal.errors import SettingsError


def uncertainty_command(
    targets: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Run folders, checkpoints or zoo:NAME; NAME=RUN names one."),
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
    limit: Annotated[int | None, typer.Option(help="Only the first LIMIT test images.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the attacks.")] = 0,
    data_dir: DataDir = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
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
    console.print(_table(record), highlight=False)
    for model in record.models:
        console.print(escape(_sentence(model)), highlight=False)
    if out is not None:
        maxmahal.uncertainty.write_record(out, record)
        console.print(f"Wrote {out}.", highlight=False, markup=False, soft_wrap=True)


def _table(record: "maxmahal.uncertainty.UncertaintyRecord") -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), caption="AUROC: 0.5 is chance, 1 is perfect")
    attacks = (f"attack at {record.epsilon}", "evading attack", "wrong and undetected")
    for column in ("model", "score", "errors", *record.ood, *attacks):
        table.add_column(escape(column), overflow="fold")
    titles = {score.name: score.title for score in maxmahal.uncertainty.SCORES}
    for model in record.models:
        for each in model.scores:
            ood = [_auroc(each.ood[name]) for name in record.ood]
            attacked = [_auroc(each.ignoring.auroc), _auroc(each.evading.auroc), f"{each.evading.undetected:.1%}"]
            title = escape(titles.get(each.score, each.score))
            table.add_row(escape(model.name), title, _auroc(each.misclassification), *ood, *attacked)
    return table


def _auroc(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _sentence(model: "maxmahal.uncertainty.ModelUncertainty") -> str:
    return (
        f"{model.name}: accuracy {model.accuracy:.1%}; calibration error of its softmax "
        f"{100 * model.calibration_error:.1f} points."
    )
