"""A user's own data from code: ``package.module:function``, called with "train" or "test"."""

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from maxmahal.data.arrays import as_images, as_labels
from maxmahal.data.source import Split
from maxmahal.data.types import ImageData
from maxmahal.errors import DataError, did_you_mean

_PATTERN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def is_factory(name: str) -> bool:
    """Whether ``name`` reads as ``package.module:function``."""
    return _PATTERN.fullmatch(name) is not None


def load_factory(name: str, split: Split) -> ImageData:
    """What the named function returns for ``split``: an ``ImageData``, or a pair of images and labels.

    A pair does not say how many classes there are, so the training labels do; return an ``ImageData`` to name them.
    """
    factory = _find(name)
    part = factory(split)
    if isinstance(part, ImageData):
        return part
    images, labels = _pair(part, name, split)
    image_tensor = as_images(images, f"{name}('{split}'): images")
    label_tensor = as_labels(labels, len(image_tensor), f"{name}('{split}'): labels")
    train_labels = label_tensor
    if split == "test":
        train_images, labels = _pair(factory("train"), name, "train")
        count = len(as_images(train_images, f"{name}('train'): images"))
        train_labels = as_labels(labels, count, f"{name}('train'): labels")
    class_names = [str(label) for label in range(int(train_labels.max()) + 1)]
    return ImageData.from_arrays(name, image_tensor, label_tensor, class_names)


def _find(name: str) -> Callable[[str], object]:
    module_name, function_name = name.split(":")
    with _current_folder_importable():
        module = _import(name, module_name)
    function = getattr(module, function_name, None)
    if not callable(function):
        callables = [word for word in vars(module) if not word.startswith("_") and callable(vars(module)[word])]
        ending = did_you_mean(function_name, callables) if callables else "define it there."
        raise DataError(f"{name}: {module_name} has no function '{function_name}'; {ending}")
    return function  # type: ignore[no-any-return]


def _import(name: str, module_name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, but something it needs is not: its own traceback says it best
        raise DataError(
            f"{name}: there is no module '{error.name}' here or among the installed packages; "
            f"run the command from the folder that holds it, or install it."
        ) from error


@contextmanager
def _current_folder_importable() -> Iterator[None]:
    # An installed command, unlike `python -m`, does not look for modules in the current folder.
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)


def _pair(part: object, name: str, split: Split) -> tuple[object, object]:
    if isinstance(part, tuple | list) and len(part) == 2:
        return part[0], part[1]
    raise DataError(
        f"{name}('{split}') must return an ImageData or a pair (images, labels); got a {type(part).__name__}."
    )
