"""The user's own data in one ``.npz`` file."""

import zipfile
import zlib
from pathlib import Path

import numpy as np

from maxmahal.data.arrays import as_images, as_labels, numbered_classes
from maxmahal.data.reading import damaged, read_errors
from maxmahal.data.source import Split
from maxmahal.data.types import ImageData
from maxmahal.errors import DataError

_WAY_OUT = "save it again with numpy.savez(path, images=…, labels=…, test_images=…, test_labels=…)."
_PREFIXES: dict[Split, str] = {"train": "", "test": "test_"}
_USES: dict[Split, str] = {"train": "training", "test": "evaluation"}
# What numpy raises on a file that is no npz, is cut short, or holds pickled objects (which are never loaded).
_DAMAGE = (
    ValueError,
    KeyError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
)


def load_npz(name: str, split: Split) -> ImageData:
    """One split of an ``.npz`` of ``images``, ``labels``, ``test_images``, ``test_labels``, perhaps ``class_names``."""
    arrays = _read(Path(name).expanduser())
    prefix = _PREFIXES[split]
    for key in (f"{prefix}images", f"{prefix}labels"):  # evaluation needs no training images
        if key not in arrays:
            raise DataError(
                f"{name} has no array '{key}', which {_USES[split]} needs (it has: {', '.join(sorted(arrays))}); "
                f"{_WAY_OUT}"
            )
    images = as_images(arrays[f"{prefix}images"], f"{name}: {prefix}images")
    labels = as_labels(arrays[f"{prefix}labels"], len(images), f"{name}: {prefix}labels")
    return ImageData.from_arrays(name, images, labels, _class_names(arrays, name))


def _read(path: Path) -> dict[str, np.ndarray]:
    # The file is opened here because numpy leaves it open when it turns out to be damaged.
    with read_errors(path, _WAY_OUT), path.open("rb") as stream:
        try:
            archive = np.load(stream, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise damaged(path, "it holds a single array", _WAY_OUT)
            with archive:
                return {key: archive[key] for key in archive.files}
        except DataError:
            raise
        except _DAMAGE as error:
            raise damaged(path, _reason(error), _WAY_OUT) from error


def _reason(error: Exception) -> str:
    """What numpy says, except its advice to unpickle, which would run any code in the file."""
    return "it is not an .npz archive, or it holds Python objects" if "pickle" in str(error) else str(error)


def _class_names(arrays: dict[str, np.ndarray], name: str) -> tuple[str, ...]:
    if "class_names" not in arrays:
        # From both splits, so that they agree on the number of classes.
        labels = [arrays[key] for key in ("labels", "test_labels") if key in arrays]
        highest = max(int(array.max()) for array in labels if array.size and array.dtype.kind in "iu")
        return numbered_classes(highest, name)
    names = arrays["class_names"]
    if names.ndim != 1 or names.dtype.kind != "U":
        raise DataError(f"{name}: class_names must be a list of texts; got {names.dtype} of shape {names.shape}.")
    return tuple(str(text) for text in names)
