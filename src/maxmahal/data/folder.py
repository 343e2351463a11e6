"""The user's own data as a folder of images: ``DIR/train/<class>/*.png`` and ``DIR/test/<class>/*.png`` (or jpg)."""

import warnings
from pathlib import Path

import numpy as np
import torch

from maxmahal.data.source import Split
from maxmahal.data.types import ImageData
from maxmahal.errors import DataError
from maxmahal.files import opened, reading, recorded_path, user_path

_ENDINGS = frozenset({".png", ".jpg", ".jpeg"})
_FORMATS = ("PNG", "JPEG")  # whatever a file is called: for some others, Pillow starts other programs
_WAY_OUT = "replace it with an image that opens in a viewer, or delete it."
_GREY_MODES = frozenset({"1", "L"})
_COLOUR_MODES = frozenset({"LA", "P", "RGB", "RGBA", "CMYK", "YCbCr"})


def load_folder(name: str, split: Split) -> ImageData:
    """One split of a folder of images by class; the folders in ``DIR/train`` name the classes.

    The first training image sets the size, and whether the data are grey or in colour.
    """
    root = user_path(name)
    train = _files_by_class(root, "train")
    if empty := [label for label, files in train.items() if not files]:
        raise DataError(f"{root / 'train' / empty[0]} holds no png or jpg images; add some or delete the folder.")
    model = next(iter(train.values()))[0]
    pattern = _read(model, colour=None)
    parts = train if split == "train" else _files_by_class(root, "test")
    if strange := sorted(parts.keys() - train.keys()):
        raise DataError(
            f"{root / 'test' / strange[0]} has no class of that name in {root / 'train'}; add or rename it."
        )
    files = [(path, label) for label, label_name in enumerate(train) for path in parts.get(label_name, ())]
    if not files:
        raise DataError(f"{root / split} holds no png or jpg images; put them in {root / split}/<class>/.")
    images = np.empty((len(files), *pattern.shape), dtype=np.uint8)
    for index, (path, _) in enumerate(files):
        image = _read(path, colour=pattern.shape[0] == 3)
        if image.shape != pattern.shape:
            raise DataError(
                f"{path} is {image.shape[2]}x{image.shape[1]} pixels but {model} is "
                f"{pattern.shape[2]}x{pattern.shape[1]}; make all images the same size."
            )
        images[index] = image
    labels = torch.tensor([label for _, label in files])
    return ImageData.from_arrays(recorded_path(name), torch.from_numpy(images), labels, tuple(train))


def _files_by_class(root: Path, split: Split) -> dict[str, list[Path]]:
    """The images of each class, both in alphabetical order, so that the numbering is the same on every machine."""
    folder = root / split
    with reading(folder, f"put the images of class NAME into {folder}/NAME/."):
        classes = sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
        found = {
            entry.name: sorted(path for path in entry.iterdir() if path.suffix.lower() in _ENDINGS) for entry in classes
        }
    if not found:
        raise DataError(f"{folder} has no folders in it; put the images of class NAME into {folder}/NAME/.")
    return found


def _read(path: Path, colour: bool | None) -> np.ndarray:
    """CHW bytes; if ``colour`` is None, the file decides."""
    from PIL import Image, UnidentifiedImageError  # imported here because only this kind of data needs it

    with reading(path, _WAY_OUT), opened(path) as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            with Image.open(stream, formats=_FORMATS) as image:
                grey = image.mode in _GREY_MODES
                if image.format == "PNG" and getattr(image, "is_animated", False):
                    raise ValueError("it is animated, and one image was expected")
                if "16" in str(image.tile):  # the names of its layouts: Pillow would drop half of the bits
                    raise ValueError("its pixels have 16 bits, and are not 8-bit grey or colour")
                if not grey and image.mode not in _COLOUR_MODES:
                    raise ValueError(f"its pixels are '{image.mode}', not 8-bit grey or colour")
                if colour is False and not grey:
                    raise DataError(f"{path} is in colour but the first training image is grey; make them all alike.")
                array = np.asarray(image.convert("L" if grey and not colour else "RGB"))
        except DataError:
            raise
        except UnidentifiedImageError as error:
            raise ValueError("it is not a PNG or JPEG image") from error
        except Exception as error:  # Pillow may raise anything on a damaged image
            raise ValueError(str(error) or type(error).__name__) from error
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
