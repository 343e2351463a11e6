"""MNIST and Fashion-MNIST, read from the official idx files."""

import math
import struct
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8

from maxmahal.data.source import DatasetSource, Download, OfficialFile, Split, way_out
from maxmahal.data.types import ImageData
from maxmahal.files import read_bytes, reading

_SIDE = 28
_CLASSES = 10
_MOST_BYTES = 64 << 20  # the official files unpack to 47 MB at most
_UNSIGNED_BYTE = 8  # the code of that type in an idx file
_PREFIXES: dict[Split, str] = {"train": "train", "test": "t10k"}
_DIGITS = tuple(str(digit) for digit in range(_CLASSES))
_CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


def _downloads(folders: tuple[str, ...], *files: tuple[str, str, str | None]) -> tuple[Download, ...]:
    downloads = []
    for name, md5, unpacked_md5 in files:
        places = tuple(f"{folder}/{name}{ending}" for folder in folders for ending in (".gz", ""))
        downloads.append(Download(f"{name}.gz", md5, (OfficialFile(places, md5, unpacked_md5),)))
    return tuple(downloads)


def _load(
    name: str, downloads: tuple[Download, ...], class_names: tuple[str, ...], data_dir: Path, split: Split
) -> ImageData:
    files = {download.name: download.files[0] for download in downloads}
    prefix, hint = _PREFIXES[split], way_out(name)
    path = files[f"{prefix}-images-idx3-ubyte.gz"].locate(name, data_dir)
    with reading(path, hint):
        images = _read_idx(path, 3)
        if images.shape[1:] != (_SIDE, _SIDE):
            raise ValueError(f"its images are {images.shape[1]}x{images.shape[2]}, not {_SIDE}x{_SIDE}")
    path = files[f"{prefix}-labels-idx1-ubyte.gz"].locate(name, data_dir)
    with reading(path, hint):
        labels = _read_idx(path, 1)
        if len(labels) != len(images):
            raise ValueError(f"it has {len(labels)} labels for {len(images)} images")
        if (labels >= _CLASSES).any():
            raise ValueError(f"a label is {labels.max()}, beyond the {_CLASSES} classes")
    return ImageData.from_arrays(
        name, torch.from_numpy(images).unsqueeze(1), torch.from_numpy(labels).to(torch.int64), class_names
    )


def _read_idx(path: Path, dimensions: int) -> UInt8[np.ndarray, "..."]:
    """The bytes of an idx file: two zero bytes, a type, the number of dimensions, their sizes, the values."""
    content = read_bytes(path, _MOST_BYTES)
    header = 4 + 4 * dimensions
    if len(content) < header or content[:4] != bytes([0, 0, _UNSIGNED_BYTE, dimensions]):
        raise ValueError(f"not an idx file of bytes with {dimensions} dimension(s)")
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    if len(content) - header != math.prod(shape):
        raise ValueError(f"it promises {math.prod(shape)} values and holds {len(content) - header}")
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape).copy()


# Name, md5 as published, md5 of the unpacked file.
_MNIST_DOWNLOADS = _downloads(
    ("MNIST/raw", "MNIST", "mnist/raw", "mnist"),
    ("train-images-idx3-ubyte", "f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
    ("train-labels-idx1-ubyte", "d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
    ("t10k-images-idx3-ubyte", "9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
    ("t10k-labels-idx1-ubyte", "ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
)
MNIST = DatasetSource(
    load=partial(_load, "mnist", _MNIST_DOWNLOADS, _DIGITS),
    class_counts={
        "train": (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
        "test": (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
    },
    epsilon="0.3",
    base_url="https://ossci-datasets.s3.amazonaws.com/mnist/",
    downloads=_MNIST_DOWNLOADS,
)

# No checksums of the unpacked Fashion-MNIST files are published.
_FASHION_DOWNLOADS = _downloads(
    ("FashionMNIST/raw", "FashionMNIST", "fashion-mnist/raw", "fashion-mnist"),
    ("train-images-idx3-ubyte", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", None),
    ("train-labels-idx1-ubyte", "25c81989df183df01b3e8a0aad5dffbe", None),
    ("t10k-images-idx3-ubyte", "bef4ecab320f06d8554ea6380940ec79", None),
    ("t10k-labels-idx1-ubyte", "bb300cfdad3c16e7a12a480ee83cd310", None),
)
FASHION_MNIST = DatasetSource(
    load=partial(_load, "fashion-mnist", _FASHION_DOWNLOADS, _CLOTHES),
    class_counts={"train": (6000,) * _CLASSES, "test": (1000,) * _CLASSES},
    epsilon="0.1",
    base_url="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    downloads=_FASHION_DOWNLOADS,
)
