"""What the library knows about a published data set: its loader, its files with their checksums, its class counts."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from maxmahal.data.types import ImageData
from maxmahal.errors import DataError
from maxmahal.files import opened, read_bytes, read_limited, reading

Split = Literal["train", "test"]
SPLITS: tuple[Split, Split] = ("train", "test")
_UNREADABLE = "make the file readable or delete it."


def way_out(name: str) -> str:
    """What to do about a missing or damaged file of a published data set; ends every such error message."""
    return f"run `maxmahal data fetch {name}`, or put the official file there by hand."


@dataclass(frozen=True)
class OfficialFile:
    """One published file: its possible paths in the data folder, the preferred one first, and its checksums.

    ``md5`` is that of the file as published, ``unpacked_md5`` that of the same file after gunzip.
    """

    places: tuple[str, ...]
    md5: str
    unpacked_md5: str | None = None

    def find(self, data_dir: Path) -> Path | None:
        """The first path that exists, or None."""
        with reading(data_dir, "make that folder readable or choose another data folder."):
            return next((data_dir / place for place in self.places if (data_dir / place).is_file()), None)

    def locate(self, name: str, data_dir: Path) -> Path:
        """The first path that exists; a missing file is an error that says what to do."""
        path = self.find(data_dir)
        if path is None:
            raise DataError(f"{name}: {data_dir / self.places[0]} is missing; {way_out(name)}")
        return path

    def verify(self, path: Path) -> tuple[bool | None, str]:
        """Whether ``path`` is the published file (None: no checksum was published), and how that is known."""
        is_as_published = path.suffix == Path(self.places[0]).suffix
        if not is_as_published and self.unpacked_md5 is None:
            return None, "unpacked, it has no published checksum; only counts and shapes are verified"
        expected = self.md5 if is_as_published else self.unpacked_md5
        found = file_md5(path)
        if found == expected:
            return True, f"md5 {found}"
        if path.suffix == ".gz" and self.unpacked_md5 is not None:
            with reading(path, _UNREADABLE):
                content = hashlib.md5(read_bytes(path), usedforsecurity=False).hexdigest()
            if content == self.unpacked_md5:
                return True, f"md5 {content} of its content; the file was compressed again"
        return False, f"md5 is {found}, the official file's is {expected}"


def file_md5(path: Path) -> str:
    """The md5 checksum of a file, in hexadecimal; none that is published is too large to be read at once."""
    with reading(path, _UNREADABLE), opened(path) as stream:
        return hashlib.md5(read_limited(stream), usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class Download:
    """One file to download: its name, its checksum, and the official files it contains or is."""

    name: str
    md5: str
    files: tuple[OfficialFile, ...]

    @property
    def is_archive(self) -> bool:
        """Whether the official files must be extracted from it."""
        return self.name.endswith(".tar.gz")


@dataclass(frozen=True)
class DatasetSource:
    """A published data set: its loader, its images per class, and where its files come from, if it needs any."""

    load: Callable[[Path, Split], ImageData]
    class_counts: Mapping[Split, tuple[int, ...]]
    base_url: str = ""
    downloads: tuple[Download, ...] = ()
    epsilon: str | None = None
    """Of the L∞ ball in which it is usually attacked: what an evaluation takes unless it is told."""
    superclasses: tuple[int, ...] | None = None
    """The superclass of each class, known without any file; None for a data set without superclasses."""

    @property
    def files(self) -> tuple[OfficialFile, ...]:
        """Every official file of the data set."""
        return tuple(file for download in self.downloads for file in download.files)
