"""The command line: the only part of the package that imports typer and rich.

Importing torch takes seconds, and help should be immediate. So these files write ``maxmahal.train.train_model`` in
full: the package imports a part when a command first uses it. The few modules that are not imported this way are
imported inside the command.
"""

import errno
import shlex
import sys
import traceback
import warnings
from typing import Any

import typer

from maxmahal.cli.app import app
from maxmahal.errors import MaxmahalError, MaxmahalWarning, printable

RESUMABLE = ("evaluate", "reproduce", "demo")  # run again, they keep what is finished
INTERRUPTED = 130  # typer's exit code for Ctrl-C


def main(commands: typer.Typer = app) -> None:
    """Run a command. Exit codes: 2 and one sentence for a user's mistake, 1 for a broken torch, 130 for Ctrl-C."""
    try:
        with warnings.catch_warnings():
            _show_notices()
            commands(prog_name="maxmahal")
    except MaxmahalError as error:
        sys.stderr.write(f"maxmahal: {error}\n")
        sys.exit(2)
    except Exception as error:
        if _torch_is_broken(error):
            cause = f"{type(error).__name__}: {' '.join(str(error).split())}"
            sys.stderr.write(f"maxmahal: torch cannot be imported ({cause}); reinstall torch in this environment.\n")
            sys.exit(1)
        if not isinstance(error, OSError):
            raise
        # The user can fix what the system cannot read or write: a name, a permission, a full disk.
        where = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"maxmahal: {printable(f'{where}{error.strerror or error}')}.\n")
        sys.exit(2)
    except SystemExit as stop:
        closed = getattr(stop.__context__, "errno", None) == errno.EPIPE  # typer exits with 1 and says nothing
        if closed and sys.argv[1:2] and sys.argv[1] in ("train", *RESUMABLE):
            sys.stderr.write(f"maxmahal: stopped, because the output was closed; {_how_to_resume(sys.argv[1:])}\n")
        if stop.code == INTERRUPTED:
            sys.stderr.write(f"maxmahal: stopped; {_how_to_resume(sys.argv[1:])}\n")
        raise


def _torch_is_broken(error: Exception) -> bool:
    """Whether torch is missing, or failed during its import.

    A torch without one of its libraries may raise an OSError, an ImportError or a ValueError.
    """
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        return True
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "torch" for frame in frames)


def _how_to_resume(words: list[str]) -> str:
    """How to resume the command that was stopped, if it can be resumed."""
    if words[:1] == ["train"]:
        again = shlex.join(["maxmahal", *words, *([] if "--resume" in words else ["--resume"])])
        return f"all finished epochs are saved; run `{again}` to continue."
    if words[:1] and words[0] in RESUMABLE:
        return "finished work is saved; run the same command to continue."
    return "run the same command to start again."


def _show_notices() -> None:
    """Print notices as one sentence, without the line of code that Python adds."""
    default = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
        if issubclass(category, MaxmahalWarning):
            sys.stderr.write(f"maxmahal: {printable(str(message))}\n")
        else:
            default(message, category, *place, **options)

    warnings.showwarning = show


__all__ = ["app", "main"]
