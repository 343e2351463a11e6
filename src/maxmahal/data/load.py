"""Load a data set by its name: a published one, or the user's own file, folder or function."""

import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader, Dataset

from maxmahal.data.arrays import from_python, load_function, load_npz
from maxmahal.data.decode import Sizing
from maxmahal.data.folder import ROBUSTBENCH, load_folder
from maxmahal.data.huggingface import PREFIX, HuggingFaceData, from_huggingface, load_huggingface
from maxmahal.data.registry import SOURCES
from maxmahal.data.source import SPLITS, Split
from maxmahal.data.stream import StreamedData
from maxmahal.data.tars import TARS, load_tar
from maxmahal.data.types import ImageData
from maxmahal.errors import ArgumentError, DataError, did_you_mean
from maxmahal.files import recorded_path, user_path
from maxmahal.imports import names_a_function, only_named

DATA_DIR_VARIABLE = "MAXMAHAL_DATA"
DataSource = str | Path | ImageData | Sequence[object] | DataLoader[Any] | Dataset[Any] | HuggingFaceData
"""Everything that ``load_dataset`` accepts."""


_OWN = (
    "the path of an .npz of images, labels, test_images and test_labels, of a folder with train/ and test/, of a .tar, "
    "hf:OWNER/NAME, or package.module:function"
)
_OPTIONS = re.compile(rf"(.+?)(?:@({ROBUSTBENCH}|[\w.-]+\.txt))?(?:@(\d+)-(\d+)(-bicubic)?)?")
"""A name, a list of files, and how images are scaled and cropped."""
_MOST_PIXELS = 4096


def resolve_data_dir(data_dir: Path | str | None = None) -> Path:
    """The folder of the published data sets: the argument, else ``MAXMAHAL_DATA``, else the user's cache folder."""
    chosen = data_dir or os.environ.get(DATA_DIR_VARIABLE)
    if chosen:
        return user_path(chosen)
    return user_path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "maxmahal"


def load_dataset(
    name: DataSource,
    split: str = "train",
    data_dir: Path | str | None = None,
    *,
    limit: int | None = None,
    stream: bool = False,
) -> ImageData:
    """The whole training or test split of a data set.

    ``name`` is one of ``dataset_names()``, the path of an ``.npz``, of a folder with ``train/<class>/`` and
    ``test/<class>/`` images or with tars, or of a tar, ``hf:OWNER/NAME``, or ``package.module:function``; or the images
    themselves: an ``ImageData``, a pair (images, labels) of arrays or tensors, a triple with class names, a
    ``DataLoader`` or ``Dataset`` of such pairs, of which the first ``limit`` are read, or a data set of Hugging Face.
    With ``stream``, the images of folders, of tars and of Hugging Face stay on disk.
    """
    if split not in SPLITS:
        raise ArgumentError(f"split must be 'train' or 'test'; got '{split}'.")
    if isinstance(name, str | Path):
        with only_named(str(name)):
            data = find_loader(str(name), data_dir)(split)
    elif isinstance(name, ImageData):
        data = name
    else:
        data = from_huggingface(name) if isinstance(name, HuggingFaceData) else from_python(name, limit)
    return data.first(limit).to("cpu") if isinstance(data, StreamedData) and not stream else data


def find_loader(name: str, data_dir: Path | str | None) -> Callable[[Split], ImageData]:
    """The function that loads a split of the data set ``name``; an unknown name is an error."""
    if name in SOURCES:
        return partial(SOURCES[name].load, resolve_data_dir(data_dir))
    if name.endswith(".npz"):
        return partial(load_npz, name)
    path, listed, sizing = _split_options(name)
    known = f"{recorded_path(path)}{name.removeprefix(path)}"
    if user_path(path).is_dir():
        return partial(load_folder, known, user_path(path), listed=listed, sizing=sizing)
    if listed:
        raise DataError(
            f"{name}: @{listed} lists files of a folder, and {path} is none; leave it out or correct the path."
        )
    if path.startswith(PREFIX):
        return partial(load_huggingface, known, path, sizing=sizing)
    if path.endswith(TARS):
        return partial(load_tar, known, user_path(path), sizing=sizing)
    if names_a_function(name):
        return partial(load_function, name)
    if name.endswith(".npy"):
        raise DataError(f"{name} would be a single array, and labels are needed too; give {_OWN}.")
    if "/" in name or os.sep in name:
        raise DataError(f"There is no folder {name}; give {_OWN}.")
    raise DataError(f"Unknown data set '{name}': {did_you_mean(name, SOURCES)} Or give {_OWN}.")


def _split_options(name: str) -> tuple[str, str, Sizing | None]:
    """``PATH@LIST@256-224`` in its parts, each of which may be missing; a path that exists has none."""
    found = None if user_path(name).exists() else _OPTIONS.fullmatch(name)
    if found is None:
        return name, "", None
    path, listed, resize, crop, bicubic = found.groups()
    if resize is None:
        return path, listed or "", None
    sizing = Sizing(int(resize), int(crop), bool(bicubic))
    if not 0 < sizing.crop <= sizing.resize <= _MOST_PIXELS:
        raise DataError(
            f"{name}: @{resize}-{crop} must scale the shorter side to at most {_MOST_PIXELS} pixels, and cut out no "
            "more than that."
        )
    return path, listed or "", sizing
