"""How near a flat of few dimensions comes to a set of centers."""

import pytest
import torch

from maxmahal.centers import (
    dimensions_spanned,
    hierarchical_centers,
    max_mahalanobis_centers,
    random_centers,
    squared_distance_to_flat,
    tree_from_superclasses,
)
from maxmahal.errors import ArgumentError


@pytest.mark.parametrize("dims", [0, 1, 63, 64, 98])
def test_of_max_mahalanobis_centers_every_dimension_takes_the_same_share(dims: int) -> None:
    centers = max_mahalanobis_centers(100, 256, norm=10.0)
    assert squared_distance_to_flat(centers, dims) == pytest.approx(100 * (1 - dims / 99))


@pytest.mark.parametrize("shape", [(7, 20), (20, 7)])
def test_no_flat_comes_nearer(shape: tuple[int, int]) -> None:
    centers = random_centers(*shape, norm=3.0, seed=0).double() + 5
    best = squared_distance_to_flat(centers, 3)
    spread = centers - centers.mean(dim=0)
    directions = torch.linalg.svd(spread).Vh[:3]
    assert best == pytest.approx(float((spread - spread @ directions.T @ directions).square().sum(dim=1).mean()))
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        other = torch.linalg.qr(torch.randn(shape[1], 3, dtype=torch.float64, generator=generator)).Q
        assert float((spread - spread @ other @ other.T).square().sum(dim=1).mean()) > best


@pytest.mark.parametrize(("shape", "dims"), [((5, 9), 4), ((5, 9), 40), ((9, 5), 5)])
def test_enough_dimensions_leave_nothing_out(shape: tuple[int, int], dims: int) -> None:
    assert squared_distance_to_flat(random_centers(*shape, norm=1.0, seed=0), dims) == pytest.approx(0, abs=1e-12)


def test_a_tree_in_shared_coordinates_spans_less_than_one_in_orthogonal_subspaces() -> None:
    tree = tree_from_superclasses([each // 5 for each in range(100)])
    shared = hierarchical_centers(tree, 256, norms=(8.0, 6.0), subspaces="shared")
    assert squared_distance_to_flat(shared, 19) == pytest.approx(0, abs=1e-4)  # 20 superclasses
    apart = hierarchical_centers(tree, 256, norms=(8.0, 6.0), subspaces="orthogonal")
    assert squared_distance_to_flat(apart, 19) == pytest.approx(36, rel=1e-5)  # all that lies below a superclass
    assert squared_distance_to_flat(apart, 98) > 0


def test_classes_count_as_often_as_they_have_images() -> None:
    centers = random_centers(6, 9, norm=2.0, seed=1).double()
    counts = torch.tensor([5, 1, 0, 2, 3, 1])
    repeated = centers.repeat_interleave(counts, dim=0)
    for dims in range(6):
        expected = squared_distance_to_flat(repeated, dims)
        assert squared_distance_to_flat(centers, dims, counts) == pytest.approx(expected, abs=1e-12)
    assert squared_distance_to_flat(centers, 4, counts) == pytest.approx(0, abs=1e-12)  # five classes are there


def test_dimensions_are_counted() -> None:
    assert dimensions_spanned(max_mahalanobis_centers(100, 256, norm=10.0)) == 99
    assert dimensions_spanned(random_centers(9, 5, norm=1.0, seed=0)) == 5
    tree = tree_from_superclasses([each // 5 for each in range(100)])
    assert dimensions_spanned(hierarchical_centers(tree, 256, norms=(9.98752, 0.49938), subspaces="shared")) == 19
    assert dimensions_spanned(hierarchical_centers(tree, 256, norms=(9.98752, 0.49938), subspaces="orthogonal")) == 99


def test_no_centers_are_refused() -> None:
    with pytest.raises(ArgumentError, match="at least one center"):
        squared_distance_to_flat(torch.zeros(0, 3), 1)


def test_a_negative_number_of_dimensions_is_refused() -> None:
    with pytest.raises(ArgumentError, match="cannot be negative; got -1"):
        squared_distance_to_flat(torch.eye(3), -1)
