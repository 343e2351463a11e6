"""A command as a user types it, run in this process."""

import os
import pty
import sys
from collections.abc import Callable

import pytest

from maxmahal import cli
from processes import COMMAND_LINE, Started


class Outcome:
    """What a command left: exit code, standard output, standard error."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def assert_refused(self, *parts: str) -> None:
        """One sentence on standard error that holds every part, exit code 2, no traceback."""
        assert self.code == 2, (self.out, self.err)
        assert self.err.startswith("maxmahal: ")
        assert self.err.count("\n") == 1
        assert "Traceback" not in self.err
        for part in parts:
            assert part in self.err


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["maxmahal", *map(str, arguments)])
        capfd.readouterr()
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capfd.readouterr()
        return Outcome(code, out, err)

    return call


@pytest.fixture
def on_a_terminal() -> Callable[..., str]:
    """Runs a command whose output is a real terminal, a pseudo one; returns what was shown there."""

    def call(*arguments: object) -> str:
        ours, theirs = pty.openpty()
        process = Started(COMMAND_LINE, *arguments, terminal=theirs, TERM="xterm", COLUMNS="160")
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # how Linux says that the other end is closed
                break
            if not part:
                break
            shown += part
        os.close(ours)
        _, errors = process.communicate()
        assert process.returncode == 0, errors
        return shown.decode()

    return call
