"""``maxmahal tree``."""

from pathlib import Path
from typing import Annotated

import typer

import maxmahal
from maxmahal.cli.common import Console, Data, DataDir, Device, Trusted, print_line
from maxmahal.errors import SettingsError


def tree_command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder, a checkpoint or zoo:NAME.")],
    out: Annotated[Path, typer.Option(help="The .toml file to write, for centers.tree.")],
    classes: Annotated[int, typer.Option(help="The number of superclasses.")] = 20,
    data: Data = None,
    trust: Trusted = None,
    train: Annotated[
        bool, typer.Option("--train", help="Use errors on training images even if the run has validation images.")
    ] = False,
    data_dir: DataDir = None,
    device: Device = "auto",
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
