"""``maxmahal doctor``."""

import os
import platform
import shutil
from importlib import metadata

import maxmahal
from maxmahal.cli.common import Console, DataDir, print_facts
from maxmahal.cli.data import dataset_status

PACKAGES = ("numpy", "scikit-learn", "safetensors", "jaxtyping", "pooch", "matplotlib", "pillow", "typer", "rich")


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
