"""CIFAR-10 and CIFAR-100, read from the official Python files."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from maxmahal.data.pickles import images_in, labels_in, names_in, read_pickle
from maxmahal.data.source import DatasetSource, Download, OfficialFile, Split, way_out
from maxmahal.data.types import ImageData
from maxmahal.files import reading

CIFAR100_SUPERCLASSES: tuple[int, ...] = (
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11,
    6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5,
    5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17,
    10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13,
    16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13,
)  # fmt: skip
"""The superclass (0..19) of each of the 100 fine classes."""


def _files(folder: str, **checksums: str) -> dict[str, OfficialFile]:
    return {name: OfficialFile((f"{folder}/{name}",), md5) for name, md5 in checksums.items()}


_TEN: dict[Split, dict[str, OfficialFile]] = {
    "train": _files(
        "cifar-10-batches-py",
        data_batch_1="c99cafc152244af753f735de768cd75f",
        data_batch_2="d4bba439e000b95fd0a9bffe97cbabec",
        data_batch_3="54ebc095f3ab1f0389bbae665268c751",
        data_batch_4="634d18415352ddfa80567beed471001a",
        data_batch_5="482c414d41f54cd18b22e5b47cb7c3cb",
    ),
    "test": _files("cifar-10-batches-py", test_batch="40351d587109b95175f43aff81a1287e"),
}
_TEN_META = OfficialFile(("cifar-10-batches-py/batches.meta",), "5ff9c542aee3614f3951f8cda6e48888")
_HUNDRED = _files(
    "cifar-100-python",
    train="16019d7e3df5f24257cddd939b257f8d",
    test="f0ef6b0ae62326f3e7ffdfab6717acfc",
    meta="7973b15100ade9c7d40fb424638fde48",
)


@contextmanager
def _opened(name: str, file: OfficialFile, data_dir: Path) -> Iterator[dict[bytes, object]]:
    """The dictionary in an official file; a ValueError in the block is about that file."""
    path = file.locate(name, data_dir)
    with reading(path, way_out(name)):
        yield read_pickle(path)


def _load_ten(data_dir: Path, split: Split) -> ImageData:
    with _opened("cifar10", _TEN_META, data_dir) as meta:
        class_names = names_in(meta, b"label_names", 10)
    images, labels = [], []
    for file in _TEN[split].values():
        with _opened("cifar10", file, data_dir) as batch:
            images.append(images_in(batch))
            labels += labels_in(batch, b"labels", len(images[-1]), 10)
    return ImageData.from_arrays("cifar10", torch.from_numpy(np.concatenate(images)), torch.tensor(labels), class_names)


def _load_hundred(data_dir: Path, split: Split) -> ImageData:
    with _opened("cifar100", _HUNDRED["meta"], data_dir) as meta:
        class_names = names_in(meta, b"fine_label_names", 100)
        coarse_names = names_in(meta, b"coarse_label_names", 20)
    with _opened("cifar100", _HUNDRED[split], data_dir) as batch:
        images = torch.from_numpy(images_in(batch).copy())
        labels = torch.tensor(labels_in(batch, b"fine_labels", len(images), 100))
        coarse_labels = torch.tensor(labels_in(batch, b"coarse_labels", len(images), 20))
    data = ImageData.from_arrays("cifar100", images, labels, class_names)
    return replace(data, coarse_labels=coarse_labels, coarse_names=coarse_names, superclasses=CIFAR100_SUPERCLASSES)


CIFAR10 = DatasetSource(
    load=_load_ten,
    class_counts={"train": (5000,) * 10, "test": (1000,) * 10},
    epsilon="8/255",
    base_url="https://www.cs.toronto.edu/~kriz/",
    downloads=(
        Download(
            "cifar-10-python.tar.gz",
            "c58f30108f718f92721af3b95e74349a",
            (*_TEN["train"].values(), *_TEN["test"].values(), _TEN_META),
        ),
    ),
)
CIFAR100 = DatasetSource(
    load=_load_hundred,
    class_counts={"train": (500,) * 100, "test": (100,) * 100},
    epsilon="8/255",
    base_url="https://www.cs.toronto.edu/~kriz/",
    downloads=(Download("cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85", tuple(_HUNDRED.values())),),
    superclasses=CIFAR100_SUPERCLASSES,
)
