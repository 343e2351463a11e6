"""``maxmahal zoo``."""

import re
from pathlib import Path

import typer

import maxmahal
from maxmahal.cli.common import Console, echo, print_facts
from maxmahal.errors import MaxmahalError
from maxmahal.files import read_text

# Lines of a model card: clean accuracy, and the worst case under a suite. The last cell is our number.
_NUMBER = re.compile(r"^\| (clean|worst case of `[^`|]+`) \|.*\| ([^|]*\d[^|]*) \|$", re.MULTILINE)


def zoo_command() -> None:
    """List the trained models for `evaluate zoo:NAME` and `maxmahal.load("NAME")`, by folder.

    For a file that cannot be read, its row shows the error, and the exit code is 1.
    """
    models = maxmahal.zoo.zoo_models()
    if not models:
        echo(f"There are no models in the zoo; name a folder of checkpoints in ${maxmahal.zoo.VARIABLE}.")
        return
    rows = {name: _row(path) for name, path in models.items()}
    for folder in maxmahal.zoo.zoo_folders():
        inside = {name: rows[name][0] for name, path in models.items() if path.parent == folder}
        if inside:
            echo(f"In {folder}:")
            print_facts(Console(), inside.items())
    missing = [name for name in maxmahal.zoo.NOT_INSTALLED if name not in models]
    if missing:
        echo(
            f"In the folder zoo/ of the source repository, not installed: {', '.join(missing)}. "
            f"To use them, set ${maxmahal.zoo.VARIABLE} to a copy of that folder."
        )
    if not all(readable for _, readable in rows.values()):
        raise typer.Exit(1)


def _row(path: Path) -> tuple[str, bool]:
    """The description and the accuracies of a model, or its error; and whether it can be read."""
    try:
        card = maxmahal.train.load_card(path)
    except MaxmahalError as error:
        return str(error), False
    settings = card.settings
    said = settings.about or f"{settings.loss.name} on {settings.data.source}"
    about = f"{said}; {settings.model.backbone}, {card.epoch} epochs on {settings.data.source}"
    return "\n".join([about, *_measured(path.with_suffix(".md"))]), True


def _measured(card: Path) -> list[str]:
    """The accuracies in the model card next to the checkpoint; the user's own models need none."""
    if not card.is_file():
        return []
    try:
        found = _NUMBER.findall(read_text(card, errors="replace"))
    except OSError as error:
        return [f"{card.name} cannot be read: {error.strerror}"]
    return [", ".join(f"{kind.replace('`', '')} {number}" for kind, number in found)] if found else []
