"""What the library knows about a published data set: how to load it, where its files lie, what must be in them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from maxmahal.data.reading import read_errors
from maxmahal.data.types import ImageData
from maxmahal.errors import DataError

Split = Literal["train", "test"]
SPLITS: tuple[Split, Split] = ("train", "test")


def way_out(name: str) -> str:
    """The end of every sentence about a missing or damaged file of a published data set."""
    return f"run `maxmahal data fetch {name}`, or put the official file there by hand."


@dataclass(frozen=True)
class OfficialFile:
    """One published file: the places under the data folder where it may lie (best first) and its checksums.

    ``md5`` belongs to the file as published at ``places[0]``; ``unpacked_md5`` to the same file after gunzip.
    """

    places: tuple[str, ...]
    md5: str
    unpacked_md5: str | None = None

    def find(self, data_dir: Path) -> Path | None:
        """The first place that holds the file, or None."""
        with read_errors(data_dir, "make that folder readable or choose another data folder."):
            return next((data_dir / place for place in self.places if (data_dir / place).is_file()), None)

    def locate(self, name: str, data_dir: Path) -> Path:
        """The first place that holds the file; its absence is an error that says what to do."""
        path = self.find(data_dir)
        if path is None:
            raise DataError(f"{name}: {data_dir / self.places[0]} is missing; {way_out(name)}")
        return path


@dataclass(frozen=True)
class Download:
    """One file to download: its name after the base address, its checksum, and the official files it brings.

    A ``.tar.gz`` brings its members, named as in ``places[0]``; anything else is itself the only official file.
    """

    name: str
    md5: str
    files: tuple[OfficialFile, ...]

    @property
    def is_archive(self) -> bool:
        """Whether the official files must be taken out of it."""
        return self.name.endswith(".tar.gz")


@dataclass(frozen=True)
class DatasetSource:
    """A published data set: its loader, its images per class, and where its files come from.

    A data set that needs no files (digits) leaves ``base_url`` and ``downloads`` empty.
    """

    load: Callable[[Path, Split], ImageData]
    class_counts: Mapping[Split, tuple[int, ...]]
    base_url: str = ""
    downloads: tuple[Download, ...] = ()
    superclasses: tuple[int, ...] | None = None
    """The superclass of each class, known without any file; None of a data set that has none."""

    @property
    def files(self) -> tuple[OfficialFile, ...]:
        """Every official file of the data set."""
        return tuple(file for download in self.downloads for file in download.files)
