"""Class centers μ: where the features of each class are to gather."""

from maxmahal.centers.codes import spherical_code
from maxmahal.centers.hierarchical import hierarchical_centers
from maxmahal.centers.max_mahalanobis import max_mahalanobis_centers, random_centers
from maxmahal.centers.registry import CENTERS
from maxmahal.centers.statistics import CenterStatistics, center_statistics
from maxmahal.centers.tree import Tree, tree_from_superclasses

__all__ = [
    "CENTERS",
    "CenterStatistics",
    "Tree",
    "center_statistics",
    "hierarchical_centers",
    "max_mahalanobis_centers",
    "random_centers",
    "spherical_code",
    "tree_from_superclasses",
]
