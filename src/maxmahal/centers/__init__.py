"""Class centers μ: where the features of each class are to gather."""

from maxmahal.centers.clustering import Merge, cluster_mistakes, cut_merges, likeness
from maxmahal.centers.hierarchical import hierarchical_centers
from maxmahal.centers.max_mahalanobis import max_mahalanobis_centers, random_centers
from maxmahal.centers.registry import CENTERS
from maxmahal.centers.spherical_codes import spherical_code
from maxmahal.centers.statistics import (
    CenterStatistics,
    center_statistics,
    dimensions_spanned,
    squared_distance_to_flat,
)
from maxmahal.centers.trees import ClassTree, Tree, load_tree, shuffle_superclasses, tree_from_superclasses, write_tree

__all__ = [
    "CENTERS",
    "CenterStatistics",
    "ClassTree",
    "Merge",
    "Tree",
    "center_statistics",
    "cluster_mistakes",
    "cut_merges",
    "dimensions_spanned",
    "hierarchical_centers",
    "likeness",
    "load_tree",
    "max_mahalanobis_centers",
    "random_centers",
    "shuffle_superclasses",
    "spherical_code",
    "squared_distance_to_flat",
    "tree_from_superclasses",
    "write_tree",
]
