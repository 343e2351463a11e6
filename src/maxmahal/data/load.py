"""Load a data set by its name: a published one, or the user's own file, folder or function."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader, Dataset

from maxmahal.data.arrays import from_python, load_function
from maxmahal.data.folder import load_folder
from maxmahal.data.npz import load_npz
from maxmahal.data.registry import SOURCES
from maxmahal.data.source import SPLITS, Split
from maxmahal.data.types import ImageData
from maxmahal.errors import ArgumentError, DataError, did_you_mean
from maxmahal.files import user_path
from maxmahal.imports import names_a_function, only_named

DATA_DIR_VARIABLE = "MAXMAHAL_DATA"
DataSource = str | Path | ImageData | Sequence[object] | DataLoader[Any] | Dataset[Any]
"""Everything that ``load_dataset`` accepts."""


_OWN = (
    "the path of an .npz of images, labels, test_images and test_labels, of a folder with train/ and test/, "
    "or package.module:function"
)


def resolve_data_dir(data_dir: Path | str | None = None) -> Path:
    """The folder of the published data sets: the argument, else ``MAXMAHAL_DATA``, else the user's cache folder."""
    chosen = data_dir or os.environ.get(DATA_DIR_VARIABLE)
    if chosen:
        return user_path(chosen)
    return user_path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "maxmahal"


def load_dataset(
    name: DataSource, split: str = "train", data_dir: Path | str | None = None, *, limit: int | None = None
) -> ImageData:
    """The whole training or test split of a data set.

    ``name`` is one of ``dataset_names()``, the path of an ``.npz`` file, the path of a folder with ``train/<class>/``
    and ``test/<class>/`` images, or ``package.module:function``; or the images themselves, which have no splits: an
    ``ImageData``, a pair (images, labels) of arrays or tensors, a triple with class names, or a ``DataLoader`` or
    ``Dataset`` of such pairs, of which the first ``limit`` are read. ``data_dir`` holds the published data sets' files.
    """
    if split not in SPLITS:
        raise ArgumentError(f"split must be 'train' or 'test'; got '{split}'.")
    if isinstance(name, ImageData):
        return name
    if not isinstance(name, str | Path):
        return from_python(name, limit)
    with only_named(str(name)):
        return find_loader(str(name), data_dir)(split)


def find_loader(name: str, data_dir: Path | str | None) -> Callable[[Split], ImageData]:
    """The function that loads a split of the data set ``name``; an unknown name is an error."""
    if name in SOURCES:
        return partial(SOURCES[name].load, resolve_data_dir(data_dir))
    if name.endswith(".npz"):
        return partial(load_npz, name)
    if user_path(name).is_dir():
        return partial(load_folder, name)
    if names_a_function(name):
        return partial(load_function, name)
    if name.endswith(".npy"):
        raise DataError(f"{name} would be a single array, and labels are needed too; give {_OWN}.")
    if "/" in name or os.sep in name:
        raise DataError(f"There is no folder {name}; give {_OWN}.")
    raise DataError(f"Unknown data set '{name}': {did_you_mean(name, SOURCES)} Or give {_OWN}.")
