"""A user's own data from Python: a pair of images and labels, as arrays or tensors."""

from collections.abc import Sequence

from torch.utils.data import TensorDataset

from maxmahal.data.arrays import as_images, as_labels, numbered_classes
from maxmahal.data.types import ImageData
from maxmahal.errors import DataError

NAME = "arrays"


def from_pair(source: object) -> ImageData:
    """``(images, labels)``, perhaps ``(images, labels, class_names)``, or a ``TensorDataset`` of the first two."""
    parts = source.tensors if isinstance(source, TensorDataset) else source
    if not isinstance(parts, tuple | list) or len(parts) not in (2, 3):
        got = f"{len(parts)} parts" if isinstance(parts, tuple | list) else f"a {type(source).__name__}"
        raise DataError(
            "data must be a data set's name, a path, package.module:function, an ImageData or a pair (images, labels) "
            f"of arrays or tensors; got {got}."
        )
    images = as_images(parts[0], "images")
    labels = as_labels(parts[1], len(images), "labels")
    if len(parts) == 2:
        return ImageData.from_arrays(NAME, images, labels, numbered_classes(int(labels.max()), NAME))
    return ImageData.from_arrays(NAME, images, labels, _names(parts[2]))


def _names(names: object) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise DataError(f"class_names, the third part of data, must be a list of texts; got {names!r:.100}.")
    return tuple(names)
