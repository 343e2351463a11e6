"""Download the official files of a published data set; files are verified and written atomically."""

import tarfile
import zlib
from pathlib import Path
from typing import Protocol, runtime_checkable

from maxmahal.data.load import find_loader, resolve_data_dir
from maxmahal.data.registry import SOURCES
from maxmahal.data.source import DatasetSource, Download, OfficialFile, file_md5
from maxmahal.errors import DataError
from maxmahal.files import write_atomically

_TIMEOUT_SECONDS = 30
_CHUNK_BYTES = 1 << 16


@runtime_checkable
class DownloadReporter(Protocol):
    """What pooch calls during a download: ``total`` is set first, ``update`` adds bytes, ``close`` ends it."""

    total: int

    def update(self, count: int, /) -> object:
        """``count`` more bytes have arrived."""

    def reset(self) -> object:
        """Start again from zero bytes."""

    def close(self) -> object:
        """The download has ended."""


def fetch_dataset(
    name: str, data_dir: Path | str | None = None, progress: DownloadReporter | None = None, base_url: str | None = None
) -> tuple[Path, ...]:
    """Download missing or damaged files into the data folder, perhaps from a mirror; returns what was written."""
    if name not in SOURCES:
        find_loader(name, data_dir)  # raises an error of its own for an unknown name
        raise DataError(f"{name} is your own data, so there is nothing to fetch; only {', '.join(SOURCES)} have files.")
    return fetch_source(name, SOURCES[name], resolve_data_dir(data_dir), progress, base_url)


def fetch_source(
    name: str,
    source: DatasetSource,
    data_dir: Path,
    progress: DownloadReporter | None = None,
    base_url: str | None = None,
) -> tuple[Path, ...]:
    """``fetch_dataset`` for a source that need not be in the registry."""
    base = (base_url or source.base_url).rstrip("/")
    missing = {
        download: wanted
        for download in source.downloads
        if (wanted := [file for file in download.files if not _is_right(file, data_dir)])
    }
    written: list[Path] = []
    for place, (download, wanted) in enumerate(missing.items()):
        url = f"{base}/{download.name}"
        try:
            if download.is_archive:
                written += _fetch_archive(url, download, wanted, data_dir, progress)
            else:
                written.append(_download(url, download.md5, data_dir / wanted[0].places[0], progress))
        except _DownloadError as error:
            files = ", ".join(["it", *(each.name for each in list(missing)[place + 1 :])])
            by_hand = f"{files} into {(data_dir / download.files[0].places[0]).parent}"
            by_hand = f"its contents into {data_dir}" if download.is_archive else by_hand
            raise DataError(f"Cannot fetch {name}: {error}. Try again later, or put {by_hand} yourself.") from error
    return tuple(written)


class _DownloadError(Exception):
    """Why one download failed; the caller adds what to do about it."""


def _is_right(file: OfficialFile, data_dir: Path) -> bool:
    path = file.find(data_dir)
    if path is None:
        return False
    try:
        # A file without a published checksum may be damaged, so it is downloaded again.
        return file.verify(path)[0] is True
    except DataError:
        return False  # it cannot be unpacked or read


def _download(url: str, md5: str, target: Path, progress: DownloadReporter | None) -> Path:
    """A second attempt is made after a first that failed."""
    import pooch  # both are imported here because only downloading needs them
    import requests

    downloader = pooch.HTTPDownloader(
        progressbar=progress or False,
        chunk_size=_CHUNK_BYTES,
        timeout=_TIMEOUT_SECONDS,
        # Otherwise a server may label a .gz as compressed text, and requests would unpack it before it is verified.
        headers={"Accept-Encoding": "identity"},
    )

    def write(temporary: Path) -> None:
        try:
            downloader(url, str(temporary), None)
        except requests.RequestException as error:  # whose text is a list of class names
            reason = f"broke off ({type(error).__name__})"
            if isinstance(error, requests.HTTPError) and error.response is not None:
                reason = f"answered {error.response.status_code} {error.response.reason}"
            elif isinstance(error, requests.Timeout):
                reason = "did not answer in time"
            elif isinstance(error, requests.ConnectionError):
                reason = "cannot be reached"
            raise _DownloadError(f"{url} {reason}") from error
        if (found := file_md5(temporary)) != md5:
            raise _DownloadError(f"{url} gave a wrong file (its md5 is {found}, the official one is {md5})")

    try:
        write_atomically(target, write)
    except _DownloadError:
        write_atomically(target, write)
    return target


def _fetch_archive(
    url: str, download: Download, wanted: list[OfficialFile], data_dir: Path, progress: DownloadReporter | None
) -> list[Path]:
    archive = data_dir / download.name
    if archive.is_file() and file_md5(archive) == download.md5:
        return _unpack(archive, wanted, data_dir)  # put there by hand, so it stays
    _download(url, download.md5, archive, progress)
    try:
        return _unpack(archive, wanted, data_dir)
    finally:
        archive.unlink(missing_ok=True)


def _unpack(archive: Path, wanted: list[OfficialFile], data_dir: Path) -> list[Path]:
    """Extract exactly the wanted members; no name in the archive is used as a path on disk."""
    try:
        with tarfile.open(archive) as members:
            return [_unpack_member(members, file, data_dir) for file in wanted]
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise _DownloadError(f"{archive.name} cannot be unpacked ({error})") from error


def _unpack_member(members: tarfile.TarFile, file: OfficialFile, data_dir: Path) -> Path:
    name = file.places[0]
    member = next((entry for entry in members if entry.name == name and entry.isreg()), None)
    stream = members.extractfile(member) if member else None
    if stream is None:
        raise _DownloadError(f"the archive holds no file {name}")
    target = data_dir / name
    content = stream.read()

    def write(temporary: Path) -> None:
        temporary.write_bytes(content)
        if file_md5(temporary) != file.md5:
            raise _DownloadError(f"{name} in the archive is not the official file")

    write_atomically(target, write)
    return target
