"""Hierarchical Max-Mahalanobis centers: classes near each other in a tree get near centers (appendix B.3)."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from maxmahal.centers.max_mahalanobis import max_mahalanobis_centers, require_floating, require_norm
from maxmahal.centers.trees import Tree, read_tree, rows_of_leaves
from maxmahal.errors import ArgumentError, check_choice, check_count
from maxmahal.random import generator

SUBSPACES = ("auto", "orthogonal", "shared")


def hierarchical_centers(
    tree: Tree,
    dim: int,
    norms: Sequence[float],
    *,
    classes: Sequence[str] | None = None,
    subspaces: str = "auto",
    rotation_seed: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "l d"]:
    """Each child's center is its parent's plus one of μ^(s, L_c), which have length ``norms[s - 1]`` (appendix B.3).

    s is the depth of the child, 1 below the root; a lone child stays at its parent's place. Rows follow the integer
    labels of the leaves, or ``classes``, or the order of appearance. ``subspaces``: "shared" puts all local centers
    into the same coordinates, the paper's plain form; "orthogonal" gives each branching its own, which takes dim ≥ L −
    1; "auto" is orthogonal where dim allows it. ``rotation_seed`` turns each set of local centers below the root's.
    """
    check_count("dim", dim)
    require_floating(dtype)
    shape = read_tree(tree)
    rows = rows_of_leaves(shape.leaves, classes)
    if len(norms) != shape.levels:
        raise ArgumentError(
            f"norms must hold one length for each of the tree's {shape.levels} levels, depth 1 first; got {len(norms)}."
        )
    for depth, norm in enumerate(norms, start=1):
        require_norm(f"norms (depth {depth})", norm)
    check_choice("subspaces", subspaces, SUBSPACES)
    fits = dim >= len(rows) - 1  # m children take m − 1 coordinates of their own, and L leaves L − 1 in all
    if subspaces == "orthogonal" and not fits:
        raise ArgumentError(
            f"subspaces='orthogonal' needs dim >= {len(rows) - 1}, one less than the classes; got dim={dim}: "
            f"raise dim, or pass subspaces='shared'."
        )
    separate = fits and subspaces != "shared"

    centers = torch.zeros(len(rows), dim, dtype=torch.float64)
    start = 0
    for number, branching in enumerate(shape.branchings):
        count = len(branching.leaves_below)
        width = count - 1 if separate else dim
        local = max_mahalanobis_centers(count, width, norms[branching.depth - 1], dtype=torch.float64)
        if rotation_seed is not None and branching.depth > 1:
            local = _rotate(local, generator(rotation_seed, "rotation", number))
        for offset, leaves in zip(local, branching.leaves_below, strict=True):
            centers[[rows[leaf] for leaf in leaves], start : start + width] += offset
        start += width if separate else 0
    return centers.to(dtype)


def stretch(centers: Float[Tensor, "l d"], length: float) -> Float[Tensor, "l d"]:
    """Every center in its own direction, at that distance from the origin."""
    require_norm("length", length)
    norms = centers.norm(dim=1, keepdim=True)
    if (norms == 0).any():
        raise ArgumentError("length cannot stretch a center at the origin: change norms, or leave length out.")
    return centers * (length / norms)


def _rotate(local: Float64[Tensor, "m k"], draws: torch.Generator) -> Float64[Tensor, "m k"]:
    """Turn the rows by a rotation or reflection drawn uniformly from all of them."""
    count, width = local.shape
    spanned = min(count - 1, width)  # a simplex leaves the other coordinates 0, so their images need not be drawn
    gaussian = torch.randn((width, spanned), generator=draws, dtype=torch.float64, device="cpu")
    frame, triangle = torch.linalg.qr(gaussian)
    signs = triangle.diagonal().sign()  # QR's own choice of signs would favour some directions
    return (local[:, :spanned] * signs) @ frame.mT
