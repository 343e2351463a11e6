"""Trees of classes as small TOML files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from maxmahal.errors import SettingsError, did_you_mean
from maxmahal.files import write_text_atomically
from maxmahal.random import generator
from maxmahal.settings import convert, read_toml, to_toml

FORMAT = "maxmahal-tree-1"
_KEYS = ("format", "about", "class_names", "superclasses")


@dataclass(frozen=True)
class ClassTree:
    """Two levels: the superclass of every class."""

    superclasses: tuple[int, ...]
    class_names: tuple[str, ...] = ()
    """For the reader; none, or one a class."""
    about: str = ""
    """Where the tree comes from."""

    def __post_init__(self) -> None:
        if not self.superclasses:
            raise SettingsError("A tree needs the superclass of at least one class; got none.")
        if self.class_names and len(self.class_names) != len(self.superclasses):
            raise SettingsError(
                f"A tree names all of its classes or none; got {len(self.class_names)} names for "
                f"{len(self.superclasses)} classes."
            )

    def groups(self) -> list[list[str]]:
        """The classes of every superclass by their names, or by their numbers where they have none."""
        names = self.class_names or tuple(str(label) for label in range(len(self.superclasses)))
        pairs = list(zip(names, self.superclasses, strict=True))
        return [[name for name, each in pairs if each == wanted] for wanted in sorted(set(self.superclasses))]


def write_tree(path: Path, tree: ClassTree) -> None:
    """Whole or not at all."""
    table = {
        "format": FORMAT,
        "about": tree.about,
        "class_names": list(tree.class_names),
        "superclasses": list(tree.superclasses),
    }
    write_text_atomically(path, to_toml(table))


def load_tree(tree: str) -> ClassTree:
    """The tree in a .toml file."""
    if not tree.endswith(".toml"):
        raise SettingsError(
            f"centers.tree = '{tree}' is not the path of a .toml file; `maxmahal tree RUN --out tree.toml` makes one."
        )
    return _read(Path(tree).expanduser())


def shuffle_superclasses(superclasses: Sequence[int], seed: int) -> tuple[int, ...]:
    """The same sizes with the classes dealt out at random: what remains of an effect here is not the tree's."""
    order = torch.randperm(len(superclasses), generator=generator(seed, "shuffled tree")).tolist()
    return tuple(superclasses[place] for place in order)


def _read(path: Path) -> ClassTree:
    table = read_toml(path)
    if table.get("format") != FORMAT:
        raise SettingsError(
            f"{path} is not a tree of classes (its format is {table.get('format')!r}, expected {FORMAT!r}); "
            "make it by `maxmahal tree`."
        )
    for key in table:
        if key not in _KEYS:
            raise SettingsError(f"{path}: '{key}' is not a part of a tree; {did_you_mean(key, _KEYS)}")
    try:
        return ClassTree(
            superclasses=convert(table.get("superclasses", []), tuple[int, ...], "superclasses"),
            class_names=convert(table.get("class_names", []), tuple[str, ...], "class_names"),
            about=convert(table.get("about", ""), str, "about"),
        )
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from error
