"""Which published data sets a plan needs and the data folder lacks, told once and not by every training."""

from collections.abc import Iterable
from pathlib import Path

from maxmahal.data import resolve_data_dir
from maxmahal.data.registry import SOURCES


def missing_data(sources: Iterable[str], data_dir: str | Path | None) -> str:
    """What is missing and how to get it, as a sentence; empty where all is here.

    A user's own files are read while the plan is made, and so need no second look.
    """
    folder = resolve_data_dir(data_dir)
    lacking = [name for name in dict.fromkeys(sources) if name in SOURCES and not _is_here(name, folder)]
    if not lacking:
        return ""
    elsewhere = "" if data_dir is None else f" --data-dir {data_dir}"
    ways = " and ".join(f"`maxmahal data fetch {name}{elsewhere}`" for name in lacking)
    are = "is" if len(lacking) == 1 else "are"
    return f"{' and '.join(lacking)} {are} not in {folder}; run {ways}, or name a folder that has it with --data-dir."


def _is_here(name: str, folder: Path) -> bool:
    return all(file.find(folder) is not None for file in SOURCES[name].files)
