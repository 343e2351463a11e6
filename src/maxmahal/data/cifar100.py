"""CIFAR-100, read from the official Python files: 100 fine classes in 20 superclasses of five."""

from pathlib import Path

import torch

from maxmahal.data.pickles import image_entry, label_entry, name_entry, read_pickle
from maxmahal.data.source import DatasetSource, Download, OfficialFile, Split, way_out
from maxmahal.data.types import ImageData

_FINE = 100
_COARSE = 20

CIFAR100_SUPERCLASSES: tuple[int, ...] = (
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11,
    6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5,
    5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17,
    10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13,
    16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13,
)  # fmt: skip
"""The superclass (0..19) of each fine class (0..99)."""


def _file(name: str, md5: str) -> OfficialFile:
    return OfficialFile((f"cifar-100-python/{name}",), md5)


_BATCHES: dict[Split, OfficialFile] = {
    "train": _file("train", "16019d7e3df5f24257cddd939b257f8d"),
    "test": _file("test", "f0ef6b0ae62326f3e7ffdfab6717acfc"),
}
_META = _file("meta", "7973b15100ade9c7d40fb424638fde48")


def _load(data_dir: Path, split: Split) -> ImageData:
    hint = way_out("cifar100")
    meta_path = _META.locate("cifar100", data_dir)
    meta = read_pickle(meta_path, hint)
    path = _BATCHES[split].locate("cifar100", data_dir)
    batch = read_pickle(path, hint)
    images = image_entry(batch, path, hint)
    return ImageData.from_arrays(
        "cifar100",
        torch.from_numpy(images.copy()),
        torch.tensor(label_entry(batch, b"fine_labels", len(images), _FINE, path, hint)),
        name_entry(meta, b"fine_label_names", _FINE, meta_path, hint),
        torch.tensor(label_entry(batch, b"coarse_labels", len(images), _COARSE, path, hint)),
        name_entry(meta, b"coarse_label_names", _COARSE, meta_path, hint),
        CIFAR100_SUPERCLASSES,
    )


CIFAR100 = DatasetSource(
    load=_load,
    class_counts={"train": (500,) * _FINE, "test": (100,) * _FINE},
    base_url="https://www.cs.toronto.edu/~kriz/",
    downloads=(
        Download(
            "cifar-100-python.tar.gz",
            "eb9058c3a382ffc7106e4002c42a8d85",
            (_BATCHES["train"], _BATCHES["test"], _META),
        ),
    ),
    superclasses=CIFAR100_SUPERCLASSES,
)
