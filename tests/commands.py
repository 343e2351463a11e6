"""A command as a user types it, run in this process."""

import sys
from collections.abc import Callable

import pytest
import typer

from maxmahal import cli


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


def runner(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], app: typer.Typer = cli.app
) -> Callable[..., Outcome]:
    """A function that runs a command with the words it is given."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["maxmahal", *map(str, arguments)])
        capfd.readouterr()
        try:
            cli.main(app)
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capfd.readouterr()
        return Outcome(code, out, err)

    return call
