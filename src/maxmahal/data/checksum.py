"""Is a file on disk the published one?"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from maxmahal.data.reading import read_bytes, read_errors
from maxmahal.data.source import OfficialFile

_WAY_OUT = "make the file readable or delete it."


@dataclass(frozen=True)
class Verdict:
    """Whether a file is right (None: nobody published a checksum to compare with), and how that is known."""

    right: bool | None
    finding: str


def file_md5(path: Path) -> str:
    """The md5 checksum of a file, in hexadecimal."""
    with read_errors(path, _WAY_OUT), path.open("rb") as stream:
        return hashlib.file_digest(stream, "md5").hexdigest()


def verify(file: OfficialFile, path: Path) -> Verdict:
    """Compare ``path`` with the checksums of ``file``.

    A gzipped file that somebody packed anew is right when what is inside is: packing is not deterministic.
    """
    is_as_published = path.suffix == Path(file.places[0]).suffix
    if not is_as_published and file.unpacked_md5 is None:
        return Verdict(None, "nobody published its checksum unpacked; only counts and shapes are verified")
    expected = file.md5 if is_as_published else file.unpacked_md5
    found = file_md5(path)
    if found == expected:
        return Verdict(True, f"md5 {found}")
    if path.suffix == ".gz" and file.unpacked_md5 is not None:
        inside = hashlib.md5(read_bytes(path, _WAY_OUT), usedforsecurity=False).hexdigest()
        if inside == file.unpacked_md5:
            return Verdict(True, f"md5 {inside} of its content; the file was packed anew")
    return Verdict(False, f"md5 is {found}, the official file's is {expected}")
