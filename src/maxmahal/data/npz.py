"""The user's own data in one ``.npz`` file."""

import numpy as np

from maxmahal.data.arrays import as_images, as_labels, numbered_classes
from maxmahal.data.source import Split
from maxmahal.data.types import ImageData
from maxmahal.errors import DataError
from maxmahal.files import opened, read_arrays, reading, recorded_path, user_path

_WAY_OUT = "save it again with numpy.savez(path, images=…, labels=…, test_images=…, test_labels=…)."
_PREFIXES: dict[Split, str] = {"train": "", "test": "test_"}
_USES: dict[Split, str] = {"train": "training", "test": "evaluation"}


def load_npz(name: str, split: Split) -> ImageData:
    """One split of an ``.npz`` of ``images``, ``labels``, ``test_images``, ``test_labels``, perhaps ``class_names``."""
    prefix = _PREFIXES[split]
    needed = (f"{prefix}images", f"{prefix}labels")  # evaluation needs no training images
    path = user_path(name)
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
    return ImageData.from_arrays(recorded_path(name), images, labels, _class_names(arrays, name))


def _class_names(arrays: dict[str, np.ndarray], name: str) -> tuple[str, ...]:
    if "class_names" not in arrays:
        # From both splits, so that they agree on the number of classes.
        labels = [arrays[key] for key in ("labels", "test_labels") if key in arrays]
        highest = max(int(array.max()) for array in labels if array.size and array.dtype.kind in "iu")
        return numbered_classes(highest, name)
    names = arrays["class_names"]
    if names.ndim != 1 or names.dtype.kind != "U":
        raise DataError(f"{name}: class_names must be a list of texts; got {names.dtype} of shape {names.shape}.")
    try:
        return tuple(str(text) for text in names)
    except (ValueError, SystemError) as error:  # numpy's for a character that does not exist
        raise DataError(f"{name}: a class name is not a text ({error}); {_WAY_OUT}") from error
