"""Data sets of Hugging Face's library ``datasets``, whose files are memory-mapped: by name, or as Python objects."""

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Int
from torch import Tensor

from maxmahal.data.arrays import as_labels, numbered_classes
from maxmahal.data.decode import ImageSource, Sizing
from maxmahal.data.source import Split
from maxmahal.data.stream import StreamedData
from maxmahal.errors import DataError
from maxmahal.files import reading
from maxmahal.imports import optional

PREFIX = "hf:"
_INSTALL = "pip install 'maxmahal[datasets]'"
_WAY_OUT = "save the images in the data set as bytes, or give the folder of the images."


@runtime_checkable
class HuggingFaceData(Protocol):
    """What the data sets of that library have and no others do; it need not be installed."""

    def cast_column(self, column: str, feature: Any) -> Any:
        """The data set with another kind of column."""


def load_huggingface(name: str, text: str, split: Split, sizing: Sizing | None = None) -> StreamedData:
    """``hf:OWNER/NAME`` or ``hf:OWNER/NAME:SPLIT``; a data set cannot bring code of its own."""
    library = optional("datasets", _INSTALL)
    path, _, wanted = text.removeprefix(PREFIX).partition(":")
    try:
        parts = library.load_dataset(path)
    except Exception as error:  # the library may raise anything
        raise DataError(f"{name} cannot be loaded ({' '.join(str(error).split())[:200]}); check the name.") from error
    wanted = wanted or ("validation" if split == "test" and "test" not in parts else split)
    if wanted not in parts:
        raise DataError(f"{name} has no split '{wanted}'; write {PREFIX}{path}:SPLIT, one of {', '.join(parts)}.")
    return from_huggingface(parts[wanted], name, sizing, path, parts.get("train"))


def from_huggingface(
    data: HuggingFaceData,
    name: str = "",
    sizing: Sizing | None = None,
    folder: str | None = None,
    train: HuggingFaceData | None = None,
) -> StreamedData:
    """The first column of images, with the first of class labels, or the column ``label``.

    Without class names it has as many classes as ``train``, the training part of the same data, or more.
    Files are read only in ``folder`` and where the library downloads to: a data set may name any other. It can name an
    image that was downloaded for another data set only by a path that holds a hash of that image or of its repository.
    """
    library = optional("datasets", _INSTALL)
    if not isinstance(data, library.Dataset):
        raise DataError(
            f"A {type(data).__name__} of Hugging Face has no samples by number; choose one split, and load it without "
            "streaming=True: its files stay on disk."
        )
    kinds = data.features
    image = next((key for key, kind in kinds.items() if isinstance(kind, library.Image)), None)
    label = next((key for key, kind in kinds.items() if isinstance(kind, library.ClassLabel)), "label")
    if image is None or label not in kinds:
        raise DataError(f"data needs a column of images and one of class labels; it has {', '.join(kinds)}.")
    name = name or data.info.dataset_name or "datasets"

    def labels_of(part: Any) -> Int[Tensor, " n"]:
        return as_labels(part.with_format("numpy")[label][:], len(part), f"{name}: {label}")

    labels = labels_of(data)
    names = getattr(kinds[label], "names", None)
    if not names:
        names = numbered_classes(max(int(labels_of(part).max()) for part in (data, train) if part), name)
    encoded = data.select_columns([image]).cast_column(image, library.Image(decode=False))

    hub = optional("huggingface_hub", _INSTALL).constants.HF_HUB_CACHE
    known = [Path(each).resolve() for each in (hub, library.config.EXTRACTED_DATASETS_PATH, folder) if each]

    def place(number: int) -> ImageSource:
        found = encoded[number][image] or {"bytes": None, "path": None}
        title = f"{name}, image {number}"
        with reading(Path(title), _WAY_OUT):
            if found["bytes"] is not None:
                return ImageSource(title, content=found["bytes"])
            if not found["path"]:
                raise ValueError("it has neither bytes nor a path")
            if not any(Path(found["path"]).resolve().is_relative_to(each) for each in known):
                raise ValueError("it is a file outside of the data set")
            return ImageSource(found["path"])

    return StreamedData.describe(name, labels, names, place, sizing=sizing)
