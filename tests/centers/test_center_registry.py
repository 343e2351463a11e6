"""Centers by name, and the five numbers that describe them."""

import inspect
import math

import pytest
import torch

from maxmahal.centers import (
    CENTERS,
    center_statistics,
    hierarchical_centers,
    max_mahalanobis_centers,
    random_centers,
    tree_from_superclasses,
)
from maxmahal.centers.registry import CONTEXT
from maxmahal.errors import ArgumentError

SUPERCLASSES = [0, 1, 0, 1, 2, 2]


def test_the_names_build_what_they_say() -> None:
    assert set(CENTERS) == {"max-mahalanobis", "random", "hierarchical"}
    assert torch.equal(CENTERS["max-mahalanobis"](5, 8, norm=3.0), max_mahalanobis_centers(5, 8, 3.0))
    assert torch.equal(CENTERS["random"](5, 8, norm=3.0, seed=4), random_centers(5, 8, 3.0, seed=4))
    tree = tree_from_superclasses(SUPERCLASSES)
    plain = CENTERS["hierarchical"](6, 8, SUPERCLASSES)
    assert torch.equal(plain, hierarchical_centers(tree, 8, (10.0, 2.0)))
    turned = CENTERS["hierarchical"](6, 8, SUPERCLASSES, norms=(5.0, 1.0), subspaces="shared", rotation_seed=0)
    assert torch.equal(turned, hierarchical_centers(tree, 8, (5.0, 1.0), subspaces="shared", rotation_seed=0))


@pytest.mark.parametrize("name", CENTERS)
def test_options_have_plain_types_and_defaults(name: str) -> None:
    parameters = list(inspect.signature(CENTERS[name]).parameters.values())
    given = ["num_classes", "dim", *(["superclasses"] if name == "hierarchical" else [])]
    assert [p.name for p in parameters[: len(given)]] == given
    for option in (each for each in parameters if each.name not in CONTEXT):
        assert option.annotation in (float, int, str, bool, tuple[float, ...])
        assert option.default is not inspect.Parameter.empty


def test_exact_reaches_the_builder() -> None:
    with pytest.raises(ArgumentError, match="drop exact"):
        CENTERS["max-mahalanobis"](10, 3, exact=True)


def test_hierarchical_centers_need_superclasses() -> None:
    with pytest.raises(ArgumentError, match="need the superclass of every class, and this data set has none"):
        CENTERS["hierarchical"](6, 8, None)
    with pytest.raises(ArgumentError, match="each of the 7 classes; got 6"):
        CENTERS["hierarchical"](7, 8, SUPERCLASSES)


def test_statistics_of_a_right_angle() -> None:
    found = center_statistics(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    assert (found.smallest_norm, found.largest_norm) == (3.0, 4.0)
    assert (found.largest_cosine, found.smallest_angle) == (0.0, 90.0)
    assert found.centroid_norm == pytest.approx(2.5)


def test_statistics_of_the_paper_centers() -> None:
    found = center_statistics(max_mahalanobis_centers(10, 256))
    assert found.largest_cosine == pytest.approx(-1 / 9, abs=1e-6)
    assert found.smallest_angle == pytest.approx(math.degrees(math.acos(-1 / 9)), abs=1e-4)
    assert found.centroid_norm < 1e-5


def test_statistics_of_a_lone_center_and_of_the_origin() -> None:
    lone = center_statistics(torch.tensor([[1.0, 2.0]]))
    assert (lone.largest_cosine, lone.smallest_angle) == (-1.0, 180.0)
    origin = center_statistics(torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
    assert (origin.smallest_norm, origin.largest_cosine) == (0.0, 0.0)


def test_statistics_refuse_no_centers() -> None:
    with pytest.raises(ArgumentError, match=r"at least one center; got shape \(0, 3\)"):
        center_statistics(torch.zeros(0, 3))
