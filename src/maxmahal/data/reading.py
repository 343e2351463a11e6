"""Reading files that may be missing, truncated or damaged, with one clear sentence if they are."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maxmahal.errors import DataError


def damaged(path: Path, reason: str, way_out: str) -> DataError:
    """The error for a file whose content is not what it should be."""
    return DataError(f"{path} is damaged ({reason}); {way_out}")


@contextmanager
def read_errors(path: Path, way_out: str) -> Iterator[None]:
    """Turn errors of the operating system or the decompressor into one sentence that says what to do."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing; {way_out}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise damaged(path, str(error), way_out) from error
    except OSError as error:
        raise DataError(f"Cannot read {path} ({error.strerror or error}); {way_out}") from error


def read_bytes(path: Path, way_out: str) -> bytes:
    """The whole file, decompressed if its name ends in ``.gz``."""
    with read_errors(path, way_out):
        if path.suffix != ".gz":
            return path.read_bytes()
        with gzip.open(path) as stream:
            return stream.read()
