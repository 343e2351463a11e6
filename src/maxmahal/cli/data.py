"""``maxmahal data list | check | fetch``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

import maxmahal
from maxmahal.cli.common import Console, DataDir, echo, print_line
from maxmahal.cli.progress import DownloadProgress

app = typer.Typer(help="Data sets: list, check and download them.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="A data set's name; `maxmahal data list` shows them.")]


@app.command("list")
def list_command(data_dir: DataDir = None) -> None:
    """Every data set, and whether its files are in the data folder."""
    console = Console()
    folder = maxmahal.data.resolve_data_dir(data_dir)
    print_line(console, f"data folder: {folder}")
    table = Table(box=None, pad_edge=False)
    table.add_column("name")
    table.add_column("files")
    for name, status in dataset_status(data_dir):
        table.add_row(name, status)
    console.print(table)


@app.command("check")
def check_command(name: Name, data_dir: DataDir = None) -> None:
    """Verify checksums, counts and class balance."""
    report = maxmahal.data.check_dataset(name, data_dir)
    for line in report.lines:
        echo(line)
    if not report.ok:
        raise typer.Exit(2)


@app.command("fetch")
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
