"""WebDataset tars: ``KEY.jpg`` or ``KEY.png`` beside ``KEY.cls`` with the number of the class; never unpacked."""

import io
import tarfile
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from maxmahal.data.arrays import as_labels, numbered_classes
from maxmahal.data.decode import ImageSource, Sizing
from maxmahal.data.source import Split
from maxmahal.data.stream import StreamedData
from maxmahal.errors import DataError
from maxmahal.files import opened, reading

TARS = (".tar", ".tar.gz", ".tgz")  # the last two are refused: no image in them can be read alone
_WAY_OUT = "write it again as an uncompressed tar of KEY.jpg or KEY.png and KEY.cls, with the number of the class."
_MOST_HEADER = 1 << 20  # bytes; a long name has a few hundred
_MOST_DIGITS = 18  # int64 holds any such number
_IMAGES = frozenset({"png", "jpg", "jpeg"})


def load_tar(name: str, path: Path, split: Split, sizing: Sizing | None = None) -> StreamedData:
    """A single tar is a test set: the same images must not train a model, too."""
    if split == "train":
        raise DataError(f"{path} is a test set; put tars to train on into DIR/train, those to test on into DIR/test.")
    return load_tars(name, [path], sizing)


def load_tars(
    name: str, paths: Sequence[Path], sizing: Sizing | None = None, training: Sequence[Path] = ()
) -> StreamedData:
    """All images of the tars, in the order of the tars and of their members.

    They have as many classes as the ``training`` tars, of which only the labels are read, or more.
    """
    index = list(_index(paths))
    if not index:
        raise DataError(f"{paths[0]} holds no images; {_WAY_OUT}")
    table = np.array(index, dtype=np.int64)
    labels = as_labels(table[:, 3], len(table), f"{name}: the .cls of the tars")
    highest = max(chain([int(labels.max())], (label for *_, label in _index(training))))

    def place(number: int) -> ImageSource:
        tar, offset, size, _ = table[number].tolist()
        return ImageSource(f"{paths[tar]} (its image at byte {offset})", str(paths[tar]), offset, size)

    return StreamedData.describe(name, labels, numbered_classes(highest, name), place, sizing=sizing)


def _index(paths: Sequence[Path]) -> Iterator[tuple[int, int, int, int]]:
    """The number of the tar, the offset, the size and the label of each image."""
    for number, path in enumerate(paths):
        with reading(path, _WAY_OUT):
            for found in _images(path):
                yield number, *found


def _images(path: Path) -> Iterator[tuple[int, int, int]]:
    """The offset, the size and the label of each image."""
    images: dict[tuple[str, str], tuple[int, int]] = {}
    labels: dict[tuple[str, str], bytes] = {}
    with opened(path) as stream:
        for member in _members(stream):
            folder, _, file = member.name.rpartition("/")
            stem, _, ending = file.rpartition(".")
            image = ending.lower() in _IMAGES
            if file.startswith(".") or not (image or ending == "cls"):  # macOS adds ._KEY.jpg
                continue
            if (folder, stem) in (images if image else labels):
                raise ValueError(f"{member.name[:100]!r} is the second {'image' if image else 'label'} of its key")
            if image:
                images[folder, stem] = member.offset_data, member.size
            else:
                stream.seek(member.offset_data)
                labels[folder, stem] = stream.read(min(member.size, _MOST_DIGITS + 1))

    def describes_another(folder: str, stem: str) -> bool:
        return "." in stem and (folder, stem.partition(".")[0]) in images  # such as KEY.mask.png beside KEY.jpg

    for (folder, stem), place in images.items():
        if (folder, stem) not in labels and describes_another(folder, stem):
            continue
        label = labels.get((folder, stem), b"no such file")
        if len(label) > _MOST_DIGITS or not label.strip().isdigit():
            raise ValueError(
                f"{f'{folder}/{stem}'[:100]!r} needs a .cls with the number of its class, of at most {_MOST_DIGITS} "
                f"digits; it has {label.decode(errors='replace')}"
            )
        yield *place, int(label)
    for folder, stem in labels:
        if (folder, stem) not in images and not describes_another(folder, stem):
            raise ValueError(f"{f'{folder}/{stem}'[:100]!r} has a .cls, and no .jpg or .png")


def _members(stream: io.BufferedReader) -> Iterator[tarfile.TarInfo]:
    """The plain files; links and parts outside of the tar are refused."""
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    try:
        with tarfile.open(fileobj=_Limited(stream), mode="r:") as tar:  # type: ignore[call-overload]
            while (member := tar.next()) is not None:
                tar.members.clear()  # which would grow with the tar
                if not (member.isfile() or member.isdir()) or member.issparse():
                    raise ValueError(f"{member.name[:100]!r} is a link or no plain file")
                if member.size < 0 or member.offset_data + member.size > size:
                    raise ValueError(f"{member.name[:100]!r} lies outside of it")
                if member.isfile():
                    yield member
            stream.seek(tar.offset)
            rest = stream.read(_MOST_HEADER)
            if len(rest) < tarfile.BLOCKSIZE or rest.strip(b"\0") or stream.tell() < size:
                raise ValueError("it does not end with zeros as every tar does, so a part of it is missing or strange")
    except (OSError, ValueError):
        raise
    except Exception as error:  # tarfile may raise anything on a damaged tar
        raise ValueError(str(error) or type(error).__name__) from error


class _Limited:
    """Headers say how long they are, and tarfile reads as much at once."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream = stream
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size: int) -> bytes:
        """So many bytes, if they are few."""
        if not 0 <= size <= _MOST_HEADER:
            raise ValueError(f"a header of {size} bytes is too long")
        return self._stream.read(size)
