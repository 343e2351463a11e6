"""Trees of classes: nested mappings and sequences, read into the branchings that hierarchical centers need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from maxmahal.errors import ArgumentError

# Mapping keys name the inner nodes for the reader; leaves are class names or integer labels. The nesting is recursive,
# which a runtime type check cannot follow: read_tree checks it.
Tree = Mapping[Any, Any] | Sequence[Any]
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
    """Check a tree and list its leaves and branchings; a leaf may stand in it once."""
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
        raise ArgumentError(f"classes must name every class once, but {repeated!r} stands there twice: remove one.")
    _require_same(set(leaves), set(rows), "classes")
    return rows


def _require_same(leaves: set[Leaf], wanted: set[Leaf], what: str) -> None:
    if unknown := sorted(leaves - wanted, key=str):
        raise ArgumentError(f"tree has the leaf {unknown[0]!r}, which is not one of {what}: rename or remove it.")
    if missing := sorted(wanted - leaves, key=str):
        raise ArgumentError(f"tree must have every class as a leaf, but {missing[0]!r} of {what} is missing: add it.")


def ancestor_heights(tree: Tree, classes: Sequence[str] | None = None) -> Int[Tensor, "l l"]:
    """How far up the lowest common ancestor of two classes is: 0 for one and the same, then 1 for each level.

    With two levels, 1 means another class of the same superclass and 2 another superclass.
    """
    shape = read_tree(tree)
    rows = rows_of_leaves(shape.leaves, classes)
    heights = torch.zeros(len(rows), len(rows), dtype=torch.int64)
    for branching in shape.branchings:
        below = [[rows[leaf] for leaf in leaves] for leaves in branching.leaves_below]
        for place, first in enumerate(below):
            for second in below[place + 1 :]:
                height = shape.levels - branching.depth + 1
                heights[torch.tensor(first)[:, None], torch.tensor(second)] = height
                heights[torch.tensor(second)[:, None], torch.tensor(first)] = height
    return heights


def tree_from_superclasses(superclasses: Sequence[int]) -> dict[int, list[int]]:
    """The two-level tree in which class i stands below superclass ``superclasses[i]``, as in CIFAR-100's 20 × 5."""
    if len(superclasses) == 0:
        raise ArgumentError("superclasses must give the superclass of at least one class; got none.")
    tree: dict[int, list[int]] = {superclass: [] for superclass in sorted(set(superclasses))}
    for label, superclass in enumerate(superclasses):
        tree[superclass].append(label)
    return tree
