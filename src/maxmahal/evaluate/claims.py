"""Who computes what: a process claims a chunk by locking one byte of a file; the system lets go when the process ends.

So several processes, started with the same command on the same folder, share the work, and a killed one leaves no claim
behind. A claim only saves work: what keeps records whole is the database.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maxmahal.files import storage_errors, writable

_STAGES, _CHUNKS = 10_000, 1_000_000


class Claims:
    """The claims of this process on one folder."""

    def __init__(self, folder: Path) -> None:
        path = folder / ".claims"
        with storage_errors(path):
            # One descriptor for all claims: closing any other one of the same file would drop them.
            self._file = writable(path, folder).open("a+b")

    def close(self) -> None:
        """Let go of everything."""
        self._file.close()

    @contextmanager
    def claim(self, evaluation: int, stage: int, chunk: int) -> Iterator[bool]:
        """Whether the chunk is ours to compute until the end of the block."""
        place = (evaluation * _STAGES + stage) * _CHUNKS + chunk
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except (BlockingIOError, PermissionError):  # POSIX allows either answer for a byte that another one holds
            yield False
            return
        try:
            yield True
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)
