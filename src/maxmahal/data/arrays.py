"""A user's own arrays: from Python, from a function that returns them, or in one ``.npz`` file."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

from maxmahal.data.source import Split
from maxmahal.data.types import ImageData
from maxmahal.errors import DataError, DataNotice, warn_caller
from maxmahal.files import opened, read_arrays, reading, recorded_path, user_path
from maxmahal.imports import call_function, check_call, import_function

_CHANNELS = (1, 3)
_LABEL_KINDS = "iub"  # numpy's letters for whole numbers and for bool: False is class 0, True class 1
_ROUNDING = 1e-3  # in steps of 1/255; floats that were once bytes differ from them by less
_NAME = "arrays"
_BATCH = 256  # images that are read of a Dataset at once
_WAY_OUT = "save it again with numpy.savez(path, images=…, labels=…, test_images=…, test_labels=…)."
_PREFIXES: dict[Split, str] = {"train": "", "test": "test_"}
_USES: dict[Split, str] = {"train": "training", "test": "evaluation"}
MAX_CLASSES = 1_000_000  # more than any known data set has; a higher label is an id or an error


def from_python(source: object, limit: int | None = None) -> ImageData:
    """``(images, labels)``, also with class names, or the first ``limit`` of a ``DataLoader`` or ``Dataset``."""
    parts = source
    if isinstance(source, TensorDataset):
        parts = source.tensors
    elif isinstance(source, DataLoader | Dataset):
        parts = _read(source, limit)
    if not isinstance(parts, tuple | list) or len(parts) not in (2, 3):
        raise DataError(
            "data must be a data set's name, a path, package.module:function, an ImageData, a DataLoader, a Dataset or "
            f"a pair (images, labels) of arrays or tensors; got {_in_words(parts)}."
        )
    images = as_images(parts[0], "images")
    labels = as_labels(parts[1], len(images), "labels")
    names = parts[2] if len(parts) == 3 else numbered_classes(int(labels.max()), _NAME)
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise DataError(f"class_names, the third part of data, must be a list of texts; got {names!r:.100}.")
    return ImageData.from_arrays(_NAME, images, labels, names)


def _in_words(parts: object) -> str:
    return f"{len(parts)} parts" if isinstance(parts, tuple | list) else f"a {type(parts).__name__}"


def _read(source: DataLoader[Any] | Dataset[Any], limit: int | None) -> tuple[object, ...]:
    loader = source if isinstance(source, DataLoader) else DataLoader(source, batch_size=_BATCH)
    parts: list[tuple[Tensor, Tensor]] = []
    try:
        with torch.random.fork_rng(devices=[]):  # a loader draws from the caller's stream
            for batch in loader:
                if not isinstance(batch, tuple | list) or len(batch) != 2:
                    raise DataError(
                        f"A batch must be a pair of images and labels; got {_in_words(batch)}. "
                        "Let the data set return (image, label)."
                    )
                images, labels = batch
                parts.append((torch.as_tensor(images), torch.as_tensor(labels)))
                if limit is not None and sum(len(each) for _, each in parts) >= limit:
                    break
            found = tuple(torch.cat(each) for each in zip(*parts, strict=True))
    except DataError:
        raise
    except Exception as error:  # a data set may raise anything
        reason = " ".join(str(error).split())[:200]
        raise DataError(
            f"A batch of data must be a pair of tensors, images in [0, 1] and labels ({type(error).__name__}: "
            f"{reason}); let the data set return what torchvision's ToTensor() makes of an image."
        ) from error
    if not found:
        raise DataError("data holds no images; check the DataLoader's sampler and batch size.")
    names = getattr(loader.dataset, "classes", None)  # as torchvision's data sets have it
    return found if names is None else (*found, names)


def load_function(name: str, split: Split) -> ImageData:
    """What ``package.module:function`` returns for ``split``: an ``ImageData``, or a pair of arrays."""
    function = import_function(name)
    check_call(name, function, "'train' or 'test'", split)
    result = call_function(name, function, split)
    if isinstance(result, ImageData):
        return result
    images, labels = _returned_pair(result, name, split)
    train_labels = labels
    if split == "test":
        _, train_labels = _returned_pair(call_function(name, function, "train"), name, "train")
    return ImageData.from_arrays(name, images, labels, numbered_classes(int(train_labels.max()), name))


def as_images(images: object, where: str) -> UInt8[Tensor, "n c h w"]:
    """Bytes NCHW from an array or tensor NHW, NHWC or NCHW of bytes, or of floats in [0, 1]."""
    array = _as_array(images, where)
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4:
        first, last = array.shape[1] in _CHANNELS, array.shape[3] in _CHANNELS
        if first == last:
            raise DataError(
                f"{where} must have 1 or 3 channels, either in the second dimension (NCHW) or in the last (NHWC); "
                f"the shape {array.shape} is ambiguous or has neither."
            )
        array = array if first else array.transpose(0, 3, 1, 2)
    else:
        raise DataError(f"{where} must be images NHW, NHWC or NCHW; got the shape {array.shape}.")
    if array.size == 0:
        raise DataError(f"{where} must hold at least one image; got the shape {array.shape}.")
    return torch.from_numpy(np.ascontiguousarray(_as_bytes(array, where)))


def as_labels(labels: object, count: int, where: str) -> Int[Tensor, " n"]:
    """One non-negative integer, or True or False, for each of ``count`` images."""
    array = _as_array(labels, where)
    if array.shape != (count,) or array.dtype.kind not in _LABEL_KINDS:
        raise DataError(
            f"{where} must be {count} whole numbers, one for each image; got {array.dtype} of shape {array.shape}."
        )
    if array.min() < 0:
        raise DataError(f"{where} must number the classes from 0; got {array.min()}.")
    return torch.from_numpy(array.astype(np.int64))


def numbered_classes(highest: int, where: str) -> tuple[str, ...]:
    """The class names "0", "1", … up to the highest label, for data without class names."""
    if highest >= MAX_CLASSES:
        raise DataError(
            f"{where}: the highest label is {highest}, which would make as many classes; number the classes 0, 1, 2, … "
            "without gaps, or give class_names."
        )
    return tuple(str(label) for label in range(highest + 1))


def _returned_pair(result: object, name: str, split: Split) -> tuple[Tensor, Tensor]:
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise DataError(
            f"{name}('{split}') must return an ImageData or a pair (images, labels); got a {type(result).__name__}."
        )
    images = as_images(result[0], f"{name}('{split}'): images")
    return images, as_labels(result[1], len(images), f"{name}('{split}'): labels")


def _as_array(values: object, where: str) -> np.ndarray:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy()  # numpy has no bfloat16
    if isinstance(values, np.ndarray):
        return values
    raise DataError(f"{where} must be an array or a tensor; got a {type(values).__name__}.")


def _as_bytes(array: np.ndarray, where: str) -> np.ndarray:
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind != "f":
        raise DataError(f"{where} must be bytes (uint8) or floats in [0, 1]; got {array.dtype}.")
    missing = int(np.isnan(array).sum())
    if missing:
        raise DataError(
            f"{where} are floats and must lie in [0, 1]; found {missing} NaN among {array.size} values. "
            "Replace them, or remove those images."
        )
    low, high = array.min(), array.max()
    if low < 0 or high > 1:
        way_out = "Divide them by their largest possible value, or store bytes (uint8)."
        if low < 0:
            way_out = "They look normalised: leave that out of the data, and let the model normalise."
        raise DataError(f"{where} are floats and must lie in [0, 1]; found {low:g} to {high:g}. {way_out}")
    scaled = array * 255
    rounded = np.round(scaled)
    error = float(np.abs(scaled - rounded).max())
    if error > _ROUNDING:
        warn_caller(f"{where} are stored as bytes: pixels were rounded by up to {error:.2g}/255.", DataNotice)
    return rounded.astype(np.uint8)


def load_npz(name: str, split: Split) -> ImageData:
    """One split of an ``.npz`` of ``images``, ``labels``, ``test_images``, ``test_labels``, perhaps ``class_names``."""
    prefix = _PREFIXES[split]
    needed = (f"{prefix}images", f"{prefix}labels")  # evaluation needs no training images
    path = user_path(name)
    if not path.exists():
        raise DataError(f"There is no file {path}; correct the path.")
    with reading(path, _WAY_OUT), opened(path) as stream:
        arrays, present = read_arrays(stream, {*needed, "labels", "test_labels", "class_names"})
    for key in needed:
        if key not in arrays:
            raise DataError(
                f"{name} has no array '{key}', which {_USES[split]} needs (it has: {', '.join(present):.100}); "
                f"{_WAY_OUT}"
            )
    images = as_images(arrays[f"{prefix}images"], f"{name}: {prefix}images")
    labels = as_labels(arrays[f"{prefix}labels"], len(images), f"{name}: {prefix}labels")
    return ImageData.from_arrays(recorded_path(name), images, labels, _names_in(arrays, name))


def _names_in(arrays: dict[str, np.ndarray], name: str) -> tuple[str, ...]:
    if "class_names" not in arrays:
        # From both splits, so that they agree on the number of classes.
        labels = [arrays[key] for key in ("labels", "test_labels") if key in arrays]
        highest = max(int(array.max()) for array in labels if array.size and array.dtype.kind in _LABEL_KINDS)
        return numbered_classes(highest, name)
    names = arrays["class_names"]
    if names.ndim != 1 or names.dtype.kind != "U":
        raise DataError(f"{name}: class_names must be a list of texts; got {names.dtype} of shape {names.shape}.")
    try:
        return tuple(str(text) for text in names)
    except (ValueError, SystemError) as error:  # numpy's for a character that does not exist
        raise DataError(f"{name}: a class name is not a text ({error}); {_WAY_OUT}") from error
