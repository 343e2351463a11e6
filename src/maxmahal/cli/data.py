"""``maxmahal data list | check | fetch``."""

from pathlib import Path
from typing import Annotated

import typer

import maxmahal
from maxmahal.cli.common import Console, DataDir, PlainCommand, PlainGroup, echo, print_line, print_table
from maxmahal.cli.progress import DownloadProgress

app = typer.Typer(cls=PlainGroup, help="Data sets: list, check and download them.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="A data set's name; `maxmahal data list` shows them.")]


@app.command("list", cls=PlainCommand)
def list_command(data_dir: DataDir = None) -> None:
    """Every data set, and whether its files are in the data folder."""
    console = Console()
    print_line(console, f"data folder: {maxmahal.data.resolve_data_dir(data_dir)}")
    print_table(console, ("name", "files"), dataset_status(data_dir))


@app.command("check", cls=PlainCommand)
def check_command(name: Name, data_dir: DataDir = None) -> None:
    """Verify checksums, counts and class balance."""
    report = maxmahal.data.check_dataset(name, data_dir)
    for line in report.lines:
        echo(line)
    if not report.ok:
        raise typer.Exit(2)


@app.command("fetch", cls=PlainCommand)
def fetch_command(name: Name, data_dir: DataDir = None) -> None:
    """Download a data set from its publisher into the data folder."""
    maxmahal.data.fetch_dataset(name, data_dir, progress=DownloadProgress(Console(stderr=True)))
    folder, files = maxmahal.data.resolve_data_dir(data_dir), maxmahal.data.registry.SOURCES[name].files
    place = f"in {folder}" if files else "embedded, with nothing to fetch"
    echo(f"{name} is {place}.")


def dataset_status(data_dir: Path | None) -> list[tuple[str, str]]:
    """Each data set's name and which of its files exist, without reading them."""
    folder = maxmahal.data.resolve_data_dir(data_dir)
    rows = []
    for name, source in maxmahal.data.registry.SOURCES.items():
        found = sum(file.find(folder) is not None for file in source.files)
        if not source.files:
            status = "embedded"
        elif found == len(source.files):
            status = "here"
        else:
            status = f"{found} of {len(source.files)} files here; run `maxmahal data fetch {name}`"
        rows.append((name, status))
    return rows
