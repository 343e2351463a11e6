"""The harness sees what it is there to see: every kind of failure, and none in a good reader."""

import contextlib
import ctypes
import subprocess
import time
from functools import partial
from pathlib import Path
from random import Random

import pytest

from maxmahal.errors import DataError, SettingsError
from tests.fuzz.mutate import change_bytes
from tests.fuzz.readers import Reader
from tests.fuzz.run import fuzz


def refuse(message: str) -> None:
    raise SettingsError(message)


def hide_memory_error() -> None:
    try:
        bytearray(2**40)
    except MemoryError as error:
        raise DataError("it is damaged.") from error


def start_program() -> None:
    with contextlib.suppress(OSError):
        subprocess.run(["/does/not/exist"])


READS = {
    "": lambda: None,
    "refuses": lambda: refuse("it is wrong; correct it."),
    "KeyError": lambda: {}["x"],
    "SystemExit": lambda: exit(0),
    "hangs": lambda: time.sleep(60),
    "process dies with -11": lambda: ctypes.string_at(0),
    "takes memory": lambda: bytearray(b"x") * (3 * 2**29),
    "asks for too much memory": hide_memory_error,
    "long message": lambda: refuse("x" * 400),
    "control characters in a message": lambda: refuse("\x1b[31m"),
    "starts a program": start_program,
    "imports a module": lambda: __import__("evilmod"),
    "writes outside": lambda: Path("../x").write_text(""),
}


def read_file(kind: str) -> None:
    """The file that nothing changed can be read."""
    if Path("file").read_bytes() != b"content":
        READS[kind]()


READERS = {kind: Reader({"file": change_bytes}, (partial(read_file, kind),)) for kind in READS}


@pytest.mark.parametrize("kind", READERS)
def test_every_kind_of_failure_is_seen(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_bytes(b"content")
    outcome = fuzz(kind, 0, 2, tmp_path, table="tests.fuzz.test_harness", seconds=2)
    assert outcome.inputs == 2
    kinds = {failure.kind for _, failure in outcome.failures}
    assert kinds == ({kind} if kind not in ("", "refuses") else set())


def test_an_input_can_be_made_again() -> None:
    made = [[change_bytes(Random(f"{seed} {key}"), bytes(range(100))) for key in range(20)] for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]
