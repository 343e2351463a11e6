"""``maxmahal zoo``: trained models by their names."""

import typer
from rich.console import Console
from rich.table import Table

from maxmahal.train.checkpoint import load_card
from maxmahal.zoo import VARIABLE, zoo_models


def zoo_command() -> None:
    """List the trained models that `evaluate zoo:NAME` and `maxmahal.load("NAME")` know."""
    models = zoo_models()
    if not models:
        typer.echo(f"There are no models in the zoo; name a folder of checkpoints in ${VARIABLE}.")
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, path in models.items():
        card = load_card(path)
        settings = card.settings
        said = settings.about or f"{settings.loss.name} on {settings.data.source}"
        table.add_row(name, f"{said}; {settings.model.backbone}, {card.epoch} epochs on {settings.data.source}")
    Console().print(table)
