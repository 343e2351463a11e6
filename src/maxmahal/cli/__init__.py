"""The command line: the only part of the package that knows typer and rich."""

import sys

from maxmahal.cli.app import app
from maxmahal.errors import MaxmahalError

INTERRUPTED = 130  # what typer makes of Ctrl-C


def main() -> None:
    """Run a command; a user's mistake ends in one sentence and exit code 2, Ctrl-C in 130."""
    try:
        app()
    except MaxmahalError as error:
        sys.stderr.write(f"maxmahal: {error}\n")
        sys.exit(2)
    except OSError as error:
        # Whatever the system refuses to read or write is the user's to mend: a name, a permission, a full disk.
        where = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"maxmahal: {where}{error.strerror or error}.\n")
        sys.exit(2)
    except SystemExit as stop:
        if stop.code == INTERRUPTED:
            sys.stderr.write(
                "maxmahal: stopped; what was finished is saved: `train --resume` or the same command goes on.\n"
            )
        raise


__all__ = ["app", "main"]
