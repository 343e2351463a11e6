"""A user's own data from code: ``package.module:function``, called with "train" or "test"."""

from maxmahal.data.arrays import as_images, as_labels, numbered_classes
from maxmahal.data.source import Split
from maxmahal.data.types import ImageData
from maxmahal.errors import DataError
from maxmahal.imports import call_function, check_call, import_function


def load_factory(name: str, split: Split) -> ImageData:
    """What the named function returns for ``split``: an ``ImageData``, or a pair of images and labels.

    A pair does not say how many classes there are, so the training labels do; return an ``ImageData`` to name them.
    """
    factory = import_function(name)
    check_call(name, factory, "'train' or 'test'", split)
    part = call_function(name, factory, split)
    if isinstance(part, ImageData):
        return part
    images, labels = _pair(part, name, split)
    image_tensor = as_images(images, f"{name}('{split}'): images")
    label_tensor = as_labels(labels, len(image_tensor), f"{name}('{split}'): labels")
    train_labels = label_tensor
    if split == "test":
        train_images, labels = _pair(call_function(name, factory, "train"), name, "train")
        count = len(as_images(train_images, f"{name}('train'): images"))
        train_labels = as_labels(labels, count, f"{name}('train'): labels")
    class_names = numbered_classes(int(train_labels.max()), name)
    return ImageData.from_arrays(name, image_tensor, label_tensor, class_names)


def _pair(part: object, name: str, split: Split) -> tuple[object, object]:
    if isinstance(part, tuple | list) and len(part) == 2:
        return part[0], part[1]
    raise DataError(
        f"{name}('{split}') must return an ImageData or a pair (images, labels); got a {type(part).__name__}."
    )
