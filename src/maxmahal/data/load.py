"""From a name to images: the published data sets, a user's file, folder or function, and the data folder."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from maxmahal.data.factory import load_factory
from maxmahal.data.folder import load_folder
from maxmahal.data.npz import load_npz
from maxmahal.data.registry import SOURCES
from maxmahal.data.source import SPLITS, Split
from maxmahal.data.types import ImageData
from maxmahal.errors import ArgumentError, DataError, did_you_mean
from maxmahal.imports import names_a_function

DATA_DIR_VARIABLE = "MAXMAHAL_DATA"


def resolve_data_dir(data_dir: Path | str | None = None) -> Path:
    """The folder of the published data sets: the argument, else ``MAXMAHAL_DATA``, else the user's cache folder."""
    chosen = data_dir or os.environ.get(DATA_DIR_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "maxmahal"


def load_dataset(name: str, split: str = "train", data_dir: Path | str | None = None) -> ImageData:
    """The training or the test part of a data set, whole.

    ``name`` is one of ``dataset_names()``, the path of an ``.npz`` file, the path of a folder with ``train/<class>/``
    and ``test/<class>/`` images, or ``package.module:function``. ``data_dir`` holds the published data sets' files.
    """
    return find_loader(name, data_dir)(_as_split(split))


def find_loader(name: str, data_dir: Path | str | None) -> Callable[[Split], ImageData]:
    """The function that loads a part of the data set ``name``; an unknown name is an error."""
    if name in SOURCES:
        return partial(SOURCES[name].load, resolve_data_dir(data_dir))
    if name.endswith(".npz"):
        return partial(load_npz, name)
    if Path(name).expanduser().is_dir():
        return partial(load_folder, name)
    if names_a_function(name):
        return partial(load_factory, name)
    if "/" in name or os.sep in name:
        raise DataError(f"There is no folder {name}; give the path of a folder with train/ and test/, or of an .npz.")
    raise DataError(f"Unknown data set '{name}': {did_you_mean(name, SOURCES)}")


def _as_split(split: str) -> Split:
    for known in SPLITS:
        if split == known:
            return known
    raise ArgumentError(f"split must be 'train' or 'test'; got '{split}'.")
