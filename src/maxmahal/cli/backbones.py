"""``--backbone``: leave to rebuild a network of the user's own, for commands that load checkpoints."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

import maxmahal
from maxmahal.errors import SettingsError
from maxmahal.imports import names_a_function

Backbones = Annotated[
    list[str] | None,
    typer.Option(
        "--backbone",
        metavar="MODULE:FUNCTION",
        help="Your network, for runs trained with model.backbone=MODULE:FUNCTION; may be given several times.",
    ),
]


@contextmanager
def own_networks(backbones: list[str] | None) -> Iterator[None]:
    """Checkpoints that need one of these networks may have it, because the user has typed its name."""
    for name in backbones or []:
        if not names_a_function(name):
            raise SettingsError(f"--backbone {name} is not of the form package.module:function.")
    with maxmahal.train.trusting.trusting(backbones or []):
        yield
