"""``--trust``: leave to run code that a checkpoint names, for commands that load checkpoints."""

from typing import Annotated

import typer

from maxmahal.errors import SettingsError
from maxmahal.imports import names_a_function


def _check(names: list[str] | None) -> list[str] | None:
    for name in names or []:
        if not names_a_function(name):
            raise SettingsError(f"--trust {name} is not of the form package.module:function.")
    return names


Trust = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        "--backbone",
        metavar="MODULE:FUNCTION",
        callback=_check,
        help="Code that the run names and that may run, such as your network; may be given several times.",
    ),
]
