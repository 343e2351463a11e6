"""Reading with limits, because anybody may have written a file, and atomic writes inside of the given folder.

A reader raises an OSError for a file and a ValueError for its content; callers say what to do about both.
"""

import errno
import io
import json
import math
import os
import re
import stat
import tempfile
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxmahal.errors import DataError, MaxmahalError, SettingsError

if TYPE_CHECKING:
    import numpy as np

_SUFFIX = ".maxmahal-tmp"
# Opening a pipe must not wait for its writer, and Windows, which has no such flag, must not translate line ends.
_PLAIN = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
MOST_BYTES = 256 << 20  # of a file that is read at once; the largest official file has 155 MB
_BLOCK = 4 << 20
_MOST_TEXT = 16 << 20  # of JSON
_MOST_TOML = 1 << 20  # which takes seconds
_MOST_DEPTH = 50
_SMALL_ARRAY = 256 << 20  # bytes; a larger one must not shrink too much when compressed
_MOST_SHRINKING = 200  # photographs shrink by 2, drawings by 20; a bomb of zeros by 1000
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_LONG_KEY = re.compile(rf"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){{{_MOST_DEPTH}}}""")
_TOO_DEEP = f"it is nested more than {_MOST_DEPTH} deep"


def user_path(path: str | Path) -> Path:
    """A path that somebody wrote, with ``~`` replaced by the home folder; it need not exist, but it must be able to."""
    try:
        str(path).encode()  # fails for half a character
        found = Path(path).expanduser()
        with suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(found)  # fails for a null byte and for a long name
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(f"{str(path)!r} cannot be a path here ({reason}); correct it.") from error
    return found


def portable_path(path: str) -> str:
    """The home folder as ``~``: that finds the file again and does not tell who the user is."""
    home = str(Path.home())
    return f"~{path.removeprefix(home)}" if path == home or path.startswith(f"{home}{os.sep}") else path


def recorded_path(path: str) -> str:
    """A path for records, which are shared: as the user wrote it, but only the name of an absolute one."""
    short = Path(portable_path(path))
    return short.name if short.is_absolute() else str(short)


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
    """The file, for reading; a pipe or a device, which may never end, is an OSError, as is a folder."""
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "a path cannot hold a null byte", str(path))
    descriptor = os.open(path, os.O_RDONLY | _PLAIN)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe, a device or a socket"
        raise OSError(errno.EINVAL, f"it is {kind}, not a plain file", str(path))
    with os.fdopen(descriptor, "rb") as stream:
        yield stream


@contextmanager
def reading(path: Path, way_out: str) -> Iterator[None]:
    """Turn an error about a data file, or a ValueError about its content, into a sentence that says what to do."""
    try:
        yield
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing; {way_out}") from error
    except ValueError as error:
        raise DataError(f"{path} is damaged ({error}); {way_out}") from error
    except OSError as error:
        raise DataError(f"Cannot read {path} ({error.strerror or error}); {way_out}") from error


def read_limited(stream: io.BufferedIOBase, most: int = MOST_BYTES) -> bytes:
    """All that is left of a stream, unpacked or not, if that is not too much."""
    content = io.BytesIO()  # block by block: reading ``most`` at once reserves that much memory for the smallest file
    while block := stream.read(min(_BLOCK, most + 1 - content.tell())):
        content.write(block)
    _refuse_more_than(most, content.tell())
    return content.getvalue()


def _refuse_more_than(most: int, size: int) -> None:
    if size > most:
        raise OSError(errno.EFBIG, f"it holds more than {most >> 20} MiB")


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """The whole file, decompressed if its name ends in ``.gz``; it may hold ``most`` bytes."""
    with opened(path) as stream:
        content = read_limited(stream, most)
    if path.suffix != ".gz":
        return content
    unpacking = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)  # not gzip, which skips zeros at the end byte by byte
    try:
        unpacked = unpacking.decompress(content, most + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    _refuse_more_than(most, len(unpacked))
    if not unpacking.eof:
        raise ValueError("it ends too early")
    return unpacked


def read_text(path: Path, errors: str = "strict") -> str:
    """A small UTF-8 text; a mark at its start is dropped."""
    with opened(path) as stream:
        return read_limited(stream, _MOST_TEXT).decode("utf-8-sig", errors)


def parse_json(text: str, *, finite: bool = True, hook: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """The only reader of JSON. NaN and infinity are refused if ``finite``; ``hook`` converts each table."""

    def real(digits: str) -> float:
        number = float(digits)
        if finite and not math.isfinite(number):
            raise ValueError(f"{digits[:20]} is not a finite number")
        return number

    value = _parse(partial(json.loads, parse_float=real, parse_constant=real, object_hook=hook), text, _MOST_TEXT)
    if _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()  # half a character, which no file can hold, is a ValueError
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """The only reader of TOML."""
    if _LONG_KEY.search(text):  # tomllib needs memory and time that grow with the square of its parts
        raise ValueError(_TOO_DEEP)
    return _parse(tomllib.loads, text, _MOST_TOML)


def _parse(parse: Callable[[str], Any], text: str, most: int) -> Any:
    """Depth and integers are checked level by level: a function that calls itself would fail on what it looks for."""
    if len(text) > most:
        raise ValueError(f"it holds more than {most >> 20} MiB")
    try:
        value = parse(text)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    level = [value]
    for _ in range(_MOST_DEPTH):
        if any(isinstance(each, int) and not -(2**63) <= each < 2**63 for each in level):
            raise ValueError("an integer has more than 64 bits")
        tables = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = [each for table in tables for each in table]
        if not level:
            return value
    raise ValueError(_TOO_DEEP)


def read_arrays(stream: io.BufferedIOBase, wanted: Collection[str]) -> tuple[dict[str, "np.ndarray"], list[str]]:
    """The wanted arrays of an .npz as far as it has them, and the names of all; no other array is unpacked."""
    try:
        size = stream.seek(0, io.SEEK_END)
        with zipfile.ZipFile(stream) as archive:
            members = {each.filename.removesuffix(".npy"): each for each in archive.infolist()}
            arrays = {}
            for name in set(wanted) & members.keys():
                info = members[name]
                if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.compress_size > size:
                    raise ValueError(f"its array '{name}' is packed in a way that numpy does not write")
                if info.file_size > max(_SMALL_ARRAY, _MOST_SHRINKING * info.compress_size):
                    raise ValueError(f"its array '{name}' would unpack {info.compress_size} bytes to {info.file_size}")
                with archive.open(info) as member:
                    arrays[name] = _read_array(member, info.file_size, name)
        return arrays, sorted(members)
    except (OSError, ValueError):
        raise
    except Exception as error:  # zipfile and numpy may raise anything on a damaged file
        reason = "it is not an .npz archive" if isinstance(error, zipfile.BadZipFile) else str(error)
        raise ValueError(reason or type(error).__name__) from error


def _read_array(member: Any, size: int, name: str) -> "np.ndarray":
    """The header first: what it promises must be what the file holds."""
    import numpy as np  # only here: the command line starts without it

    version = np.lib.format.read_magic(member)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"its array '{name}' has the version {version}, and 1.0 or 2.0 was expected")
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read_header(member)
    if dtype.hasobject:
        raise ValueError(f"its array '{name}' holds Python objects")
    if any(side < 0 for side in shape) or math.prod(shape) * dtype.itemsize != size - member.tell():
        raise ValueError(f"its array '{name}' promises the shape {shape}, which does not fit its size")
    content = bytearray(member.read())  # so that the array can be written to
    return np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C")


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
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = "Free some space or choose another folder" if full else "Choose another file or folder"
        raise StorageError(f"Cannot write {path}: {reason}. {advice}; existing files are unchanged.") from error


def remove_temporary_files(folder: Path) -> None:
    """Delete temporary files that a killed ``write_atomically`` left in a locked folder."""
    for path in folder.glob(f".*{_SUFFIX}"):
        path.unlink(missing_ok=True)


def writable(path: Path, within: Path | None = None) -> Path:
    """The regular file that ``path`` leads to through links; it need not exist.

    Anything else is refused, and so is a link out of the folder ``within``, which may come from another user.
    """
    real = Path(os.path.realpath(path))
    if real.exists() and not real.is_file():
        kind = "a folder" if real.is_dir() else "a device, a pipe or a socket"
        raise StorageError(f"Cannot write {path}: it is {kind}, not a plain file. Choose another name.")
    if within is not None and not real.is_relative_to(os.path.realpath(within)):
        way_out = "Remove the link or choose another folder."
        raise StorageError(f"Cannot write {path}: a link leads out of {within}. {way_out}")
    return real


def check_folder_name(name: str, kind: str) -> None:
    """Refuse a name, of a "model" for example, that cannot be the name of a folder inside another one."""
    if not name or name.startswith(".") or set("/\\\0") & set(name):
        raise SettingsError(f"'{name}' cannot name a {kind}, because a folder gets that name; rename it.")


def write_atomically(path: Path, write: Callable[[Path], object], within: Path | None = None) -> None:
    """Let ``write`` fill a temporary file next to ``path``, sync it, and rename it; links are ``writable``'s."""
    with storage_errors(path):
        path = writable(path, within)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_SUFFIX, dir=path.parent)
        os.close(descriptor)
        temporary = Path(name)
        try:
            write(temporary)
            _sync(temporary)
            # The only portable way to read the mask is to set it; mkstemp's 0600 would exclude the user's group.
            mask = os.umask(0)
            os.umask(mask)
            temporary.chmod(0o666 & ~mask)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync(path.parent)


def write_text_atomically(path: Path, text: str, within: Path | None = None) -> None:
    """``write_atomically`` for a small UTF-8 text."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"), within)


def _sync(path: Path) -> None:
    folder = path.is_dir()
    if folder and os.name == "nt":  # Windows cannot open a folder
        return
    descriptor = os.open(path, os.O_RDONLY if folder else os.O_RDWR)  # Windows syncs what can be written
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
