"""Centers by the names that settings files use; a new kind of centers is one builder and one line here.

A builder takes what it needs of ``CONTEXT``; its other arguments, with their plain types and defaults, are settings.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from maxmahal.centers.hierarchical import hierarchical_centers, stretch
from maxmahal.centers.max_mahalanobis import max_mahalanobis_centers, random_centers
from maxmahal.centers.trees import load_tree, shuffle_superclasses, tree_from_superclasses
from maxmahal.errors import ArgumentError, check_count

CONTEXT = ("num_classes", "dim", "superclasses", "dtype", "device")


def build_hierarchical(
    num_classes: int,
    dim: int,
    superclasses: Sequence[int] | None,
    *,
    norms: tuple[float, ...] = (10.0, 2.0),
    subspaces: str = "auto",
    rotation_seed: int = -1,
    tree: str = "",
    shuffle_seed: int = -1,
    length: float = 0.0,
) -> Float[Tensor, "l d"]:
    """Two levels, superclasses and their classes (appendix B.3).

    ``tree`` names a .toml file of ``maxmahal tree`` in place of the data set's own. A ``shuffle_seed`` deals the
    classes out at random to superclasses of the same sizes. Negative seeds mean no rotation and no shuffling.
    ``length`` stretches every center to it, for trees whose lone classes would lie nearer to the origin; 0 leaves them
    as they are.
    """
    check_count("num_classes", num_classes)
    chosen = load_tree(tree).superclasses if tree else superclasses
    if chosen is None:
        raise ArgumentError(
            "hierarchical centers need the superclass of every class, and this data set has none: choose data with "
            "superclasses, such as CIFAR-100, name a tree in centers.tree, or choose other centers."
        )
    if len(chosen) != num_classes:
        where = f"the tree '{tree}'" if tree else "superclasses"
        raise ArgumentError(
            f"{where} must give one superclass for each of the {num_classes} classes; got {len(chosen)}."
        )
    if shuffle_seed >= 0:
        chosen = shuffle_superclasses(chosen, shuffle_seed)
    seed = None if rotation_seed < 0 else rotation_seed
    centers = hierarchical_centers(
        tree_from_superclasses(chosen), dim, norms, subspaces=subspaces, rotation_seed=seed, dtype=torch.float64
    )
    return (stretch(centers, length) if length else centers).to(torch.float32)


CENTERS: dict[str, Callable[..., Float[Tensor, "l d"]]] = {
    "max-mahalanobis": max_mahalanobis_centers,
    "random": random_centers,
    "hierarchical": build_hierarchical,
}
"""Kinds of class centers by the name that settings use."""
