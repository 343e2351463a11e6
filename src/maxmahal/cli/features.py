"""``maxmahal density``, ``uncertainty`` and ``tree``: what the features, the loss and the errors of models tell."""

import json
import math
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

import maxmahal
from maxmahal.cli import common
from maxmahal.cli.common import Console, print_line, print_table
from maxmahal.errors import SettingsError
from maxmahal.files import write_text_atomically

_argument = partial(typer.Argument, metavar="RUN", autocompletion=common.completing("zoo"))


def density_command(
    targets: Annotated[list[str], _argument(help="Run folders, checkpoints or names of the zoo.")],
    data: common.Data = None,
    trust: common.Trusted = None,
    train: Annotated[bool, typer.Option("--train", help="Measure the training images, not the test images.")] = False,
    limit: common.Limit = None,
    out: Annotated[Path | None, typer.Option(help="Also write a page (.html) or the record (.json).")] = None,
    data_dir: common.DataDir = None,
    device: common.Device = "auto",
) -> None:
    """Compare the features of models: losses, distances, angles and sample density."""
    if out is not None and out.suffix not in (".html", ".json"):
        raise SettingsError(f"--out must end in .html for a page or in .json for the record; got '{out}'.")
    if limit is not None and limit < 1:
        raise SettingsError(f"--limit must be at least 1; got {limit}.")  # before torch is imported
    record = maxmahal.density.compare_models(
        targets,
        data=data,
        split="train" if train else "test",
        limit=limit,
        trusted=trust or (),
        data_dir=data_dir,
        device=device,
    )
    console = Console()
    print_table(console, *maxmahal.density.table(record), ruled=True)
    if out is None:
        return
    if out.suffix == ".html":
        maxmahal.density.write_density_page(record, out)
    else:
        write_text_atomically(out, json.dumps(record, indent=1, allow_nan=False) + "\n")
    print_line(console, f"Wrote {out}.")


def uncertainty_command(
    targets: Annotated[list[str], _argument(help="Run folders, checkpoints or zoo:NAME; NAME=RUN names one.")],
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
    trust: common.Trusted = None,
    limit: common.Limit = None,
    seed: Annotated[int, typer.Option(help="Seed of the attacks.")] = 0,
    data_dir: common.DataDir = None,
    device: common.Device = "auto",
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
        device=maxmahal.train.device.pick_device(device),
    )
    console = Console()
    _print_scores(console, record)
    for model in record.models:
        calibration = f"calibration error of its softmax {100 * model.calibration_error:.1f} points"
        print_line(console, f"{model.name}: accuracy {model.accuracy:.1%}; {calibration}.")
    if out is not None:
        maxmahal.uncertainty.write_record(out, record)
        print_line(console, f"Wrote {out}.")


def _print_scores(console: Console, record: "maxmahal.uncertainty.UncertaintyRecord") -> None:
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


def tree_command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder, a checkpoint or zoo:NAME.")],
    out: Annotated[Path, typer.Option(help="The .toml file to write, for centers.tree.")],
    classes: Annotated[int, typer.Option(help="The number of superclasses.")] = 20,
    data: common.Data = None,
    trust: common.Trusted = None,
    train: Annotated[
        bool, typer.Option("--train", help="Use errors on training images even if the run has validation images.")
    ] = False,
    data_dir: common.DataDir = None,
    device: common.Device = "auto",
) -> None:
    """Build a class tree from the errors of a trained model, for hierarchical centers; test images are not used."""
    if out.suffix != ".toml":
        raise SettingsError(f"--out must end in .toml, for the tree; got '{out}'.")

    from maxmahal.evaluate.learned_tree import learn_tree

    tree = learn_tree(
        run,
        superclasses=classes,
        data=data,
        train=train,
        trusted=trust or (),
        data_dir=data_dir,
        device=device,
    )
    maxmahal.centers.write_tree(out, tree)
    console = Console()
    for group in tree.groups():
        print_line(console, ", ".join(group))
    print_line(console, f"{tree.about}.")
    print_line(console, f"Wrote {out}; use it by --set centers.name=hierarchical --set centers.tree={out}.")
