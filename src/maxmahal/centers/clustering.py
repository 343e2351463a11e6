"""A tree of the classes from a model's mistakes: classes that are often confused are close in it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from maxmahal.errors import ArgumentError


@dataclass(frozen=True)
class Merge:
    """One joining of two nodes; classes are the nodes 0..L−1, and the k-th joining makes the node L + k."""

    first: int
    second: int
    likeness: float
    """The mean over all pairs of a class of one and a class of the other."""


def likeness(confusion: Int[np.ndarray, "l l"]) -> Float[np.ndarray, "l l"]:
    """How often two classes are taken for one another: the mean of both error rates, by counts (true, predicted)."""
    counts = np.asarray(confusion, dtype=np.float64)
    if counts.ndim != 2 or len(counts) != counts.shape[1] or len(counts) < 1:
        raise ArgumentError(f"A confusion matrix must be square with a class at least; got shape {counts.shape}.")
    if (counts < 0).any():
        raise ArgumentError("A confusion matrix counts images, so no entry can be negative.")
    rates = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    both = np.asarray((rates + rates.T) / 2)
    np.fill_diagonal(both, 0.0)
    return both


def cluster_mistakes(confusion: Int[np.ndarray, "l l"]) -> tuple[Merge, ...]:
    """Average linkage: join the two nodes with the largest mean likeness until one is left.

    Of equal ones the two with the fewest classes are joined: most pairs of classes are never mistaken for one another.
    """
    mean = likeness(confusion)
    if not mean.any():
        raise ArgumentError("No two classes were ever mistaken for one another, so there is nothing to cluster by.")
    count = len(mean)
    np.fill_diagonal(mean, -np.inf)
    nodes, sizes = np.arange(count), np.ones(count)
    merges = []
    for step in range(count - 1):
        rows, columns = np.nonzero(np.triu(mean == mean.max(), k=1))
        best = int(np.argmin(sizes[rows] + sizes[columns]))
        keep, drop = int(rows[best]), int(columns[best])
        merges.append(Merge(int(nodes[keep]), int(nodes[drop]), float(mean[keep, drop])))
        joined = (sizes[keep] * mean[keep] + sizes[drop] * mean[drop]) / (sizes[keep] + sizes[drop])
        mean[keep], mean[:, keep] = joined, joined
        mean[keep, keep] = -np.inf
        mean[drop], mean[:, drop] = -np.inf, -np.inf
        sizes[keep] += sizes[drop]
        nodes[keep] = count + step
    return tuple(merges)


def cut_merges(merges: Sequence[Merge], count: int) -> tuple[int, ...]:
    """The superclass of each class once ``count`` nodes are left, numbered by the first class of each."""
    classes = len(merges) + 1
    if not 1 <= count <= classes:
        raise ArgumentError(f"{classes} classes make between 1 and {classes} superclasses; got {count}.")
    below: dict[int, list[int]] = {label: [label] for label in range(classes)}
    for step, merge in enumerate(merges[: classes - count]):
        below[classes + step] = below.pop(merge.first) + below.pop(merge.second)
    superclasses = [0] * classes
    for place, labels in enumerate(sorted(below.values(), key=min)):
        for label in labels:
            superclasses[label] = place
    return tuple(superclasses)
