"""Trees of classes: nested mappings and sequences for hierarchical centers, and small TOML files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from maxmahal.errors import ArgumentError, SettingsError, did_you_mean
from maxmahal.files import user_path, write_text_atomically
from maxmahal.random import generator
from maxmahal.settings import convert, read_toml, to_toml

# Mapping keys name the inner nodes for the reader; leaves are class names or integer labels. The nesting is recursive,
# which a runtime type check cannot follow: read_tree checks it.
Tree = Mapping[Any, Any] | Sequence[Any]
"""A class tree as nested mappings or lists; leaves are class names or labels."""
Leaf = str | int


@dataclass(frozen=True)
class Branching:
    """A node with several children: the depth of the children (the root's are 1), and the leaves below each."""

    depth: int
    leaves_below: tuple[tuple[Leaf, ...], ...]


@dataclass(frozen=True)
class TreeShape:
    """All leaves in order of appearance, every branching from the root down, and the number of levels."""

    leaves: tuple[Leaf, ...]
    branchings: tuple[Branching, ...]
    levels: int


def read_tree(tree: Tree) -> TreeShape:
    """Check a tree and list its leaves and branchings; each leaf may occur once."""
    if isinstance(tree, str):
        raise ArgumentError(f"tree must be a mapping or a sequence of classes; got the name {tree!r} alone.")
    shape = _read(tree, depth=0, path="the root")
    seen: set[Leaf] = set()
    for leaf in shape.leaves:
        if leaf in seen:
            raise ArgumentError(f"tree must hold every class once, but {leaf!r} is a leaf twice: remove one of them.")
        seen.add(leaf)
    return shape


def _read(node: object, depth: int, path: str) -> TreeShape:
    if isinstance(node, str) or (isinstance(node, int) and not isinstance(node, bool)):
        return TreeShape(leaves=(node,), branchings=(), levels=depth)
    if isinstance(node, Mapping):
        children = list(node.items())
    elif isinstance(node, Sequence):
        children = list(enumerate(node))
    else:
        raise ArgumentError(
            f"tree must nest mappings and sequences down to class names or integer labels, but {path} holds {node!r}."
        )
    if not children:
        raise ArgumentError(f"tree must have a class below every node, but {path} is empty: fill it or remove it.")
    below = [_read(child, depth + 1, f"{path} > {name!r}") for name, child in children]
    # A node with one child tells nothing apart, and so is no branching.
    own = (Branching(depth + 1, tuple(child.leaves for child in below)),) if len(below) > 1 else ()
    return TreeShape(
        leaves=tuple(leaf for child in below for leaf in child.leaves),
        branchings=own + tuple(branching for child in below for branching in child.branchings),
        levels=max(child.levels for child in below),
    )


def rows_of_leaves(leaves: Sequence[Leaf], classes: Sequence[str] | None) -> dict[Leaf, int]:
    """The row of each leaf: its integer label, its place in ``classes``, or else the order of appearance."""
    names = [leaf for leaf in leaves if isinstance(leaf, str)]
    if not names:
        if classes is not None:
            raise ArgumentError("classes must be left out when the leaves of tree are integer labels, which are rows.")
        _require_same(set(leaves), set(range(len(leaves))), f"the labels 0..{len(leaves) - 1}")
        return {leaf: int(leaf) for leaf in leaves}
    if len(names) < len(leaves):
        label = next(leaf for leaf in leaves if isinstance(leaf, int))
        raise ArgumentError(f"tree must have only names or only labels as leaves; got both {names[0]!r} and {label}.")
    if classes is None:
        return {leaf: row for row, leaf in enumerate(leaves)}
    rows: dict[Leaf, int] = {name: row for row, name in enumerate(classes)}
    if len(rows) < len(classes):
        repeated = next(name for row, name in enumerate(classes) if rows[name] != row)
        raise ArgumentError(f"classes must name every class once, but {repeated!r} occurs twice: remove one.")
    _require_same(set(leaves), set(rows), "classes")
    return rows


def _require_same(leaves: set[Leaf], wanted: set[Leaf], what: str) -> None:
    if unknown := sorted(leaves - wanted, key=str):
        raise ArgumentError(f"tree has the leaf {unknown[0]!r}, which is not one of {what}: rename or remove it.")
    if missing := sorted(wanted - leaves, key=str):
        raise ArgumentError(f"tree must have every class as a leaf, but {missing[0]!r} of {what} is missing: add it.")


def tree_from_superclasses(superclasses: Sequence[int]) -> dict[int, list[int]]:
    """The two-level tree in which class i is below superclass ``superclasses[i]``, as in CIFAR-100's 20 × 5."""
    if len(superclasses) == 0:
        raise ArgumentError("superclasses must give the superclass of at least one class; got none.")
    tree: dict[int, list[int]] = {superclass: [] for superclass in sorted(set(superclasses))}
    for label, superclass in enumerate(superclasses):
        tree[superclass].append(label)
    return tree


FORMAT = "maxmahal-tree-1"
_KEYS = ("format", "about", "class_names", "superclasses")


@dataclass(frozen=True)
class ClassTree:
    """Two levels: the superclass of every class."""

    superclasses: tuple[int, ...]
    class_names: tuple[str, ...] = ()
    """For the reader; none, or one per class."""
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
    table = {"about": tree.about, "class_names": list(tree.class_names), "superclasses": list(tree.superclasses)}
    write_text_atomically(path, to_toml({"format": FORMAT, **table}))


def load_tree(tree: str) -> ClassTree:
    """The tree in a .toml file."""
    if not tree.endswith(".toml"):
        raise SettingsError(
            f"centers.tree = '{tree}' is not the path of a .toml file; `maxmahal tree RUN --out tree.toml` makes one."
        )
    path = user_path(tree)
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


def shuffle_superclasses(superclasses: Sequence[int], seed: int) -> tuple[int, ...]:
    """The same sizes with the classes assigned at random: an effect that remains is not due to the tree."""
    order = torch.randperm(len(superclasses), generator=generator(seed, "shuffled tree")).tolist()
    return tuple(superclasses[place] for place in order)
