"""``maxmahal zoo``: trained models by their names."""

import re
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from maxmahal.train.checkpoint import load_card
from maxmahal.zoo import VARIABLE, zoo_folders, zoo_models

# Lines of a model's card: before any attack, and the worst case under a suite. The last cell is our number.
_NUMBER = re.compile(r"^\| (clean|worst case of `[^`|]+`) \|.*\| ([^|]*\d[^|]*) \|$", re.MULTILINE)


def zoo_command() -> None:
    """List the trained models that `evaluate zoo:NAME` and `maxmahal.load("NAME")` know, folder by folder."""
    models = zoo_models()
    if not models:
        typer.echo(f"There are no models in the zoo; name a folder of checkpoints in ${VARIABLE}.")
        return
    for folder in zoo_folders():
        inside = {name: path for name, path in models.items() if path.parent == folder}
        if inside:
            typer.echo(f"In {folder}:")
            Console().print(_listed(inside))


def _listed(models: dict[str, Path]) -> Table:
    """A row for each: what it is, and what was measured on it."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, path in models.items():
        card = load_card(path)
        settings = card.settings
        said = settings.about or f"{settings.loss.name} on {settings.data.source}"
        about = f"{said}; {settings.model.backbone}, {card.epoch} epochs on {settings.data.source}"
        table.add_row(name, escape("\n".join([about, *_measured(path.with_suffix(".md"))])))
    return table


def _measured(card: Path) -> list[str]:
    """The accuracies that a model's card beside its checkpoint tells; a model of one's own need not have one."""
    if not card.is_file():
        return []
    found = _NUMBER.findall(card.read_text(encoding="utf-8"))
    return [", ".join(f"{kind.replace('`', '')} {number}" for kind, number in found)] if found else []
