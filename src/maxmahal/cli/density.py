"""``maxmahal density``."""

import json
from pathlib import Path
from typing import Annotated

import typer

import maxmahal
from maxmahal.cli.common import (
    Console,
    Data,
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
from maxmahal.files import write_text_atomically


def density_command(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN", autocompletion=completing("zoo"), help="Run folders, checkpoints or names of the zoo."
        ),
    ],
    data: Data = None,
    trust: Trusted = None,
    train: Annotated[bool, typer.Option("--train", help="Measure the training images, not the test images.")] = False,
    limit: Limit = None,
    out: Annotated[Path | None, typer.Option(help="Also write a page (.html) or the record (.json).")] = None,
    data_dir: DataDir = None,
    device: Device = "auto",
) -> None:
    """Compare the features of models: losses, distances, angles and sample density."""
    if out is not None and out.suffix not in (".html", ".json"):
        raise SettingsError(f"--out must end in .html for a page or in .json for the record; got '{out}'.")
    if limit is not None and limit < 1:
        raise SettingsError(f"--limit must be at least 1; got {limit}.")
    record = maxmahal.density.compare_models(
        targets,
        data=data,
        split="train" if train else "test",
        limit=limit,
        trusted=trust or (),
        data_dir=data_dir,
        device=pick_device(device),
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
