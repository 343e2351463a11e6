"""Records of figures on disk: one JSON file each."""

import json
import os
from pathlib import Path

from maxmahal.errors import MaxmahalError
from maxmahal.files import write_text_atomically
from maxmahal.version import __version__
from paper.gallery.registry import find_figure
from paper.gallery.types import Options, Record

FORMAT = "maxmahal-figure-1"
FOLDER = Path("paper/results/gallery")  # in a checkout, where the published records lie


class FigureRecordError(MaxmahalError, ValueError):
    """A figure's record cannot be read."""


def default_folder() -> Path:
    """Where records are kept when nobody says: those of a checkout in the current folder, else the user's cache."""
    if FOLDER.is_dir():
        return FOLDER
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "maxmahal" / "gallery"


def record_path(folder: Path, name: str) -> Path:
    """Where the record of a figure lies."""
    return folder / f"{name}.json"


def read_record(folder: Path, name: str) -> Record | None:
    """The record of a figure, or None where there is none."""
    path = record_path(folder, name)
    if not path.exists():
        return None
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["format"] != FORMAT or kept["figure"] != name:
            raise ValueError(f"it says {kept['format']}, {kept['figure']}")
        record: Record = kept["record"]
    except (ValueError, KeyError, TypeError) as error:
        raise FigureRecordError(
            f"{path} is not a record of {name} ({error}); `python -m paper.gallery figure {name} --fresh` makes one."
        ) from error
    return record


def make_record(folder: Path, name: str, options: Options) -> Record:
    """Compute the record of a figure and keep it."""
    record = find_figure(name).compute(options)
    kept = {"format": FORMAT, "figure": name, "maxmahal": __version__, "record": record}
    # NaN is not JSON: better to refuse it here than to let every reader stumble over it.
    text = json.dumps(kept, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    write_text_atomically(record_path(folder, name), text + "\n")
    return record


def obtain_record(folder: Path, name: str, options: Options, *, fresh: bool = False) -> Record:
    """What is on disk; computed first where it is missing, or when asked for afresh."""
    find_figure(name)  # an unknown name is refused before anything is read or computed
    kept = None if fresh else read_record(folder, name)
    return make_record(folder, name, options) if kept is None else kept
