"""Atomic writes: a file is either the old version or the new one, and never outside of the given folder."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from maxmahal.errors import MaxmahalError, SettingsError

_SUFFIX = ".maxmahal-tmp"


class StorageError(MaxmahalError, OSError):
    """A file cannot be written: the disk is full or read-only, or permission is missing."""


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn an error of the operating system about writing ``path`` into one sentence that says what to do."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(
            f"Cannot write {path}: {reason}. Free some space or choose another folder; existing files are unchanged."
        ) from error


def remove_temporary_files(folder: Path) -> None:
    """Delete temporary files that a killed ``write_atomically`` left in a locked folder."""
    for path in folder.glob(f".*{_SUFFIX}"):
        path.unlink(missing_ok=True)


def writable(path: Path, within: Path | None = None) -> Path:
    """The regular file that ``path`` leads to through links; it need not exist.

    Anything else, such as a device, is refused. So is a link that leads out of the folder ``within``, because that
    folder may come from another user.
    """
    real = Path(os.path.realpath(path))
    if real.exists() and not real.is_file():
        kind = "a folder" if real.is_dir() else "a device, a pipe or a socket"
        raise StorageError(f"Cannot write {path}: it is {kind}, not a plain file. Choose another name.")
    if within is not None and not real.is_relative_to(os.path.realpath(within)):
        raise StorageError(
            f"Cannot write {path}: a link leads out of {within}. Remove the link or choose another folder."
        )
    return real


def check_folder_name(name: str, kind: str) -> None:
    """Refuse a name, of a "model" for example, that cannot be the name of a folder inside another one."""
    if not name or name.startswith(".") or set("/\\\0") & set(name):
        raise SettingsError(f"'{name}' cannot name a {kind}, because a folder gets that name; rename it.")


def write_atomically(path: Path, write: Callable[[Path], object], within: Path | None = None) -> None:
    """Let ``write`` fill a temporary file next to ``path``, sync it to disk, and rename it.

    ``writable`` says which links are followed.
    """
    with storage_errors(path):
        path = writable(path, within)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_SUFFIX, dir=path.parent)
        os.close(descriptor)
        temporary = Path(name)
        try:
            write(temporary)
            _sync(temporary)
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync(path.parent)


def write_text_atomically(path: Path, text: str, within: Path | None = None) -> None:
    """``write_atomically`` for a small UTF-8 text."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"), within)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    # The only portable way to read the mask is to set it; mkstemp's 0600 would exclude the user's group.
    mask = os.umask(0)
    os.umask(mask)
    return mask
