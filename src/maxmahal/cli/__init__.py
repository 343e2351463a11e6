"""The command line: the only part of the package that knows typer and rich.

Help and the answer to a mistyped word should come at once, and torch takes seconds to import. So these files name
what they use in full, ``maxmahal.train.train_model``, and the part is imported when a command that runs first uses it;
the few modules that no part brings along are imported inside the command.
"""

import shlex
import sys
import traceback
import warnings
from typing import TextIO

import typer

from maxmahal.cli.app import app
from maxmahal.errors import DataNotice, MaxmahalError

GO_ON = ("evaluate", "reproduce", "demo")  # typed again, they take up what they have finished
INTERRUPTED = 130  # what typer makes of Ctrl-C


def main(commands: typer.Typer = app) -> None:
    """Run a command; a user's mistake ends in one sentence and exit code 2, a broken torch in 1, Ctrl-C in 130."""
    try:
        with warnings.catch_warnings():
            _tell_notices()
            commands()
    except MaxmahalError as error:
        sys.stderr.write(f"maxmahal: {error}\n")
        sys.exit(2)
    except Exception as error:
        if _broke_importing_torch(error):
            cause = f"{type(error).__name__}: {' '.join(str(error).split())}"
            sys.stderr.write(f"maxmahal: torch cannot be imported ({cause}); reinstall torch in this environment.\n")
            sys.exit(1)
        if not isinstance(error, OSError):
            raise
        # Whatever the system refuses to read or write is the user's to mend: a name, a permission, a full disk.
        where = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"maxmahal: {where}{error.strerror or error}.\n")
        sys.exit(2)
    except SystemExit as stop:
        if stop.code == INTERRUPTED:
            sys.stderr.write(f"maxmahal: stopped; {_way_on(sys.argv[1:])}\n")
        raise


def _broke_importing_torch(error: Exception) -> bool:
    """Whether torch is missing, or its own first file was running when the error came.

    A torch that misses a library raises an OSError, an ImportError or a ValueError, so the kind alone tells nothing.
    """
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        return True
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "torch" for frame in frames)


def _way_on(words: list[str]) -> str:
    """How to go on with the command that was stopped, as far as it can."""
    if words[:1] == ["train"]:
        again = shlex.join(["maxmahal", *words, *([] if "--resume" in words else ["--resume"])])
        return f"every epoch that was finished is saved: `{again}` goes on."
    if words[:1] and words[0] in GO_ON:
        return "what was finished is saved: the same command goes on."
    return "the same command starts again."


def _tell_notices() -> None:
    """What is to be known about the data as one sentence, without the line of code that Python puts before it."""
    usual = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, DataNotice):
            sys.stderr.write(f"maxmahal: {message}\n")
        else:
            usual(message, category, filename, lineno, file, line)

    warnings.showwarning = show


__all__ = ["app", "main"]
