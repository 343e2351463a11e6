"""CIFAR-10, read from the official Python files."""

from pathlib import Path

import numpy as np
import torch

from maxmahal.data.pickles import image_entry, label_entry, name_entry, read_pickle
from maxmahal.data.source import DatasetSource, Download, OfficialFile, Split, way_out
from maxmahal.data.types import ImageData

_CLASSES = 10


def _file(name: str, md5: str) -> OfficialFile:
    return OfficialFile((f"cifar-10-batches-py/{name}",), md5)


_BATCHES: dict[Split, tuple[OfficialFile, ...]] = {
    "train": (
        _file("data_batch_1", "c99cafc152244af753f735de768cd75f"),
        _file("data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"),
        _file("data_batch_3", "54ebc095f3ab1f0389bbae665268c751"),
        _file("data_batch_4", "634d18415352ddfa80567beed471001a"),
        _file("data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"),
    ),
    "test": (_file("test_batch", "40351d587109b95175f43aff81a1287e"),),
}
_META = _file("batches.meta", "5ff9c542aee3614f3951f8cda6e48888")


def _load(data_dir: Path, split: Split) -> ImageData:
    hint = way_out("cifar10")
    meta = _META.locate("cifar10", data_dir)
    class_names = name_entry(read_pickle(meta, hint), b"label_names", _CLASSES, meta, hint)
    images, labels = [], []
    for file in _BATCHES[split]:
        path = file.locate("cifar10", data_dir)
        batch = read_pickle(path, hint)
        images.append(image_entry(batch, path, hint))
        labels += label_entry(batch, b"labels", len(images[-1]), _CLASSES, path, hint)
    return ImageData.from_arrays("cifar10", torch.from_numpy(np.concatenate(images)), torch.tensor(labels), class_names)


CIFAR10 = DatasetSource(
    load=_load,
    class_counts={"train": (5000,) * _CLASSES, "test": (1000,) * _CLASSES},
    base_url="https://www.cs.toronto.edu/~kriz/",
    downloads=(
        Download(
            "cifar-10-python.tar.gz",
            "c58f30108f718f92721af3b95e74349a",
            (*_BATCHES["train"], *_BATCHES["test"], _META),
        ),
    ),
)
