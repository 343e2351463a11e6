"""The harness sees what it is there to see: every kind of failure, and none in a good reader."""

import contextlib
import ctypes
import subprocess
import time
from pathlib import Path
from random import Random

from maxmahal.errors import DataError, SettingsError
from tests.fuzz.mutate import change_bytes
from tests.fuzz.readers import Reader
from tests.fuzz.run import fuzz


def refuse(message: str) -> None:
    error = SettingsError("")
    error.args = (message,)  # as it is, without what the class does for messages
    raise error


def hide_memory_error() -> None:
    try:
        bytearray(2**40)
    except MemoryError as error:
        raise DataError("it is damaged.") from error


def start_program() -> None:
    with contextlib.suppress(OSError):
        subprocess.run(["/does/not/exist"])


READS = {
    "nothing": lambda: None,
    "refuses": lambda: refuse("it is wrong; correct it."),
    "KeyError": lambda: {}["x"],
    "SystemExit": lambda: exit(0),
    "hangs": lambda: time.sleep(60),
    "process dies with -11": lambda: ctypes.string_at(0),
    "takes memory": lambda: bytearray(b"x") * (9 * 2**27),
    "asks for too much memory": hide_memory_error,
    "long message": lambda: refuse("x" * 400),
    "control characters in a message": lambda: refuse("\x1b[31m"),
    "starts a program": start_program,
    "imports a module": lambda: __import__("evilmod"),
    "writes outside": lambda: Path("../x").write_text(""),
}


def read_file() -> None:
    """Misbehaves as the file says."""
    READS[Path("file").read_text()]()


KNOWN = {kind: kind.encode() for kind in READS}
HANG = {"hangs": KNOWN.pop("hangs")}
READERS = {
    "bad": Reader({"file": change_bytes}, (read_file,), known=KNOWN, seconds=60),  # memory takes time on a busy machine
    "endless": Reader({"file": change_bytes}, (read_file,), known=HANG, seconds=2),
}


def test_every_kind_of_failure_is_seen(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("nothing")
    bad, endless = (fuzz(name, 0, 0, tmp_path, table="tests.fuzz.test_harness") for name in READERS)
    failures = bad.failures + endless.failures
    assert bad.inputs + endless.inputs == len(READS)
    assert failures == [(kind, failure) for kind, failure in failures if failure.kind == kind]
    assert {kind for kind, _ in failures} == set(READS) - {"nothing", "refuses"}
    assert bad.costs["takes memory"][1] > 2**30


def test_an_input_can_be_made_again() -> None:
    made = [[change_bytes(Random(f"{seed} {key}"), bytes(range(100))) for key in range(20)] for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]
