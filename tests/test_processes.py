"""The tests' own processes behave as ``python -c`` does."""

import os
import signal
from pathlib import Path

import pytest

from processes import Started, run


def test_words_streams_and_the_exit_code_are_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("one", "two"):
        folder = tmp_path / value
        folder.mkdir()
        (folder / "lies_here.py").write_text("FOUND = 7")
        monkeypatch.chdir(folder)
        monkeypatch.setenv("PROCESSES", value)
        code = "import os, sys, lies_here; print(sys.argv, os.environ['PROCESSES'], os.getcwd()); sys.exit(7)"
        assert run(code, "a", 1) == (7, f"['-c', 'a', '1'] {value} {folder}\n", "")


def test_an_error_is_told_and_ends_in_one() -> None:
    done = run("import sys; sys.stderr.write('before '); raise KeyError('mine')")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("before ")
    assert "KeyError: 'mine'" in done.stderr


def test_it_can_be_spoken_to_and_killed() -> None:
    process = Started("import os, sys\nfor line in sys.stdin: print(os.getpid(), line, end='', flush=True)")
    process.stdin.write("word\n")
    process.stdin.flush()
    assert process.stdout.readline() == f"{process.pid} word\n"
    assert process.pid != os.getpid()
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    assert process.communicate() == ("", "")
    assert process.returncode == -signal.SIGKILL


def test_it_checks_nothing_and_is_not_changed_by_the_tests() -> None:
    """The package is imported there as a user has it."""
    code = "import jaxtyping, maxmahal.losses; print(hasattr(maxmahal.losses.mmc_loss, '__wrapped__'))"
    assert run(code).stdout == "False\n"
