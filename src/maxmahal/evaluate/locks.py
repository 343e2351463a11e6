"""Locks on chunks: a process locks one byte of a file per chunk, and the system frees it when the process ends.

So several processes, started with the same command on the same folder, share the work, and a killed process leaves no
lock behind. A lock only saves work; the database keeps the records consistent.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maxmahal.files import storage_errors, writable

FILE = ".claims"  # the name that all versions use, so that they can share a folder
_STAGES, _CHUNKS = 10_000, 1_000_000
_LAST = 2**62  # no file is longer; damaged records may number an evaluation anyhow


class ChunkLocks:
    """The locks of this process in one folder."""

    def __init__(self, folder: Path) -> None:
        with storage_errors(folder / FILE):
            # One descriptor for all locks: closing another one of the same file would release them.
            self._file = writable(folder / FILE, folder).open("a+b")

    def close(self) -> None:
        """Release all locks."""
        self._file.close()

    @contextmanager
    def lock(self, evaluation: int, stage: int, chunk: int) -> Iterator[bool]:
        """Lock a chunk until the end of the block; False if another process holds it."""
        place = ((evaluation * _STAGES + stage) * _CHUNKS + chunk) % _LAST
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except (BlockingIOError, PermissionError):  # POSIX allows either error for a byte that is locked
            yield False
            return
        try:
            yield True
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)
