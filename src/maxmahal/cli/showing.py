"""A shipped TOML file on the screen, as a starting point for one of the user's own."""

from collections.abc import Sequence
from importlib import resources
from typing import Annotated

import typer

from maxmahal.errors import SettingsError, did_you_mean

Show = Annotated[
    str | None, typer.Option("--show", metavar="NAME", help="Print its TOML, a starting point for one of your own.")
]


def show_shipped(kind: str, folder: str, name: str, names: Sequence[str]) -> None:
    """Print the file of that name as it is shipped, comments and all."""
    if name not in names:
        raise SettingsError(f"There is no {kind} '{name}' to show; {did_you_mean(name, names)}")
    text = (resources.files("maxmahal") / folder / f"{name}.toml").read_text(encoding="utf-8")
    typer.echo(text, nl=False)
