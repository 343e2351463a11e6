"""A command as a user types it, run in this process."""

import os
import pty
from collections.abc import Callable

import pytest

from commands import Outcome, runner
from processes import COMMAND_LINE, Started


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    return runner(monkeypatch, capfd)


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
