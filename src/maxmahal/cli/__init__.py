"""The command line: the only part of the package that knows typer and rich."""

import sys

from maxmahal.cli.app import app
from maxmahal.errors import MaxmahalError


def main() -> None:
    """Run a command; a user's mistake ends in one sentence and exit code 2, Ctrl-C in 130."""
    try:
        app(standalone_mode=False)
    except MaxmahalError as error:
        sys.stderr.write(f"maxmahal: {error}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("maxmahal: stopped. What was finished is saved; the same command with --resume goes on.\n")
        sys.exit(130)


__all__ = ["app", "main"]
