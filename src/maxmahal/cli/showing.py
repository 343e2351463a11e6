"""A shipped TOML file on the screen, as a starting point for one of the user's own."""

from typing import Annotated

import typer

from maxmahal.errors import SettingsError, did_you_mean
from maxmahal.shipped import Kind, shipped_files

Show = Annotated[
    str | None, typer.Option("--show", metavar="NAME", help="Print its TOML, a starting point for one of your own.")
]


def show_shipped(kind: Kind, name: str) -> None:
    """Print the file of that name as it is shipped, comments and all."""
    shipped = shipped_files(kind)
    if name not in shipped:
        raise SettingsError(f"There is no {kind} '{name}' to show; {did_you_mean(name, shipped)}")
    typer.echo(shipped[name].read_text(encoding="utf-8"), nl=False)
