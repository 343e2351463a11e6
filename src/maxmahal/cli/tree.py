"""``maxmahal tree``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import maxmahal
from maxmahal.cli.train import DataDir, pick_device
from maxmahal.cli.trust import Trust
from maxmahal.errors import SettingsError


def tree_command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder, a checkpoint or zoo:NAME.")],
    out: Annotated[Path, typer.Option(help="The tree, a .toml file for centers.tree.")],
    classes: Annotated[int, typer.Option(help="How many superclasses to cut the tree into.")] = 20,
    data: Annotated[
        str | None, typer.Option(help="A data set, an .npz, a folder or package.module:function (default: the run's).")
    ] = None,
    trust: Trust = None,
    train: Annotated[
        bool, typer.Option("--train", help="Mistakes on training images even where the run held some out.")
    ] = False,
    data_dir: DataDir = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Make a tree of the classes from a trained model's mistakes, for hierarchical centers; never on test images."""
    if out.suffix != ".toml":
        raise SettingsError(f"--out must end in .toml, for the tree; got '{out}'.")

    from maxmahal.evaluate.learned_tree import learn_tree

    tree = learn_tree(
        run,
        superclasses=classes,
        data=data,
        part="train" if train else None,
        trusted=trust or (),
        data_dir=data_dir,
        device=pick_device(device),
    )
    maxmahal.centers.write_tree(out, tree)
    console = Console()
    for group in tree.groups():
        console.print(", ".join(group), highlight=False, markup=False, soft_wrap=True)
    console.print(f"{tree.about}.", highlight=False, markup=False, soft_wrap=True)
    console.print(
        f"Wrote {out}; use it by --set centers.name=hierarchical --set centers.tree={out}.",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
