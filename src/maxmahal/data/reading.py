"""Reading files that may be missing, truncated or damaged, with one clear sentence if they are."""

import errno
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maxmahal.errors import DataError
from maxmahal.files import MOST_BYTES, opened, read_limited


@contextmanager
def reading(path: Path, way_out: str) -> Iterator[None]:
    """Turn an error about a file, or a ValueError about its content, into one sentence that says what to do."""
    try:
        yield
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing; {way_out}") from error
    except (ValueError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged ({error}); {way_out}") from error
    except OSError as error:
        raise DataError(f"Cannot read {path} ({error.strerror or error}); {way_out}") from error


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """The whole file, decompressed if its name ends in ``.gz``; it may hold ``most`` bytes."""
    with opened(path) as stream:
        content = read_limited(stream, most)
    if path.suffix != ".gz":
        return content
    # Not the module gzip, which skips zeros after the end byte by byte.
    unpacking = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    unpacked = unpacking.decompress(content, most + 1)
    if len(unpacked) > most:
        raise OSError(errno.EFBIG, f"it unpacks to more than {most >> 20} MiB")
    if not unpacking.eof:
        raise EOFError("it ends too early")
    return unpacked
