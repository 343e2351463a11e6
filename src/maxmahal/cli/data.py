"""``maxmahal data list | check | fetch`` and ``maxmahal doctor``."""

import os
import platform
import shutil
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

import maxmahal
from maxmahal.cli.common import Console, DataDir, PlainCommand, PlainGroup, echo, print_facts, print_line, print_table
from maxmahal.cli.progress import DownloadProgress

app = typer.Typer(cls=PlainGroup, help="Data sets: list, check and download them.", no_args_is_help=True)
PACKAGES = ("numpy", "scikit-learn", "safetensors", "jaxtyping", "pooch", "matplotlib", "pillow", "typer", "rich")
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


def doctor_command(data_dir: DataDir = None) -> None:
    """Print what this machine has: versions, threads, CUDA, data sets."""
    import torch

    folder = maxmahal.data.resolve_data_dir(data_dir)
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    cuda = "none: everything runs on the CPU"
    if torch.cuda.is_available():
        properties, count = torch.cuda.get_device_properties(0), torch.cuda.device_count()
        cuda = f"{count} x {properties.name}, {properties.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda}"
    facts = [
        ("maxmahal", maxmahal.__version__),
        ("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        ("torch", torch.__version__),
        *((package, _version(package)) for package in PACKAGES),
        ("threads", f"{torch.get_num_threads()} used by torch, {os.cpu_count()} cores"),
        ("cuda", cuda),
        ("data folder", f"{folder} ({shutil.disk_usage(nearest).free / 2**30:.0f} GiB free)"),
        *((f"data {name}", status) for name, status in dataset_status(data_dir)),
    ]
    print_facts(Console(), facts)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
