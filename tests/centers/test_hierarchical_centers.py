"""Hierarchical centers (appendix B.3): where they stand, and which trees are refused."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmahal.centers import hierarchical_centers, max_mahalanobis_centers, tree_from_superclasses
from maxmahal.errors import ArgumentError

TREE = {"animal": ["cat", "dog"], "vehicle": {"road": ["car", "truck"], "air": ["plane"]}}
CIFAR100 = [(7 * label) % 20 for label in range(100)]  # 20 superclasses of 5 classes, interleaved as in the real set


def same_superclass(superclasses: list[int]) -> torch.Tensor:
    index = torch.tensor(superclasses)
    return index[:, None] == index[None, :]


def distances(centers: torch.Tensor) -> torch.Tensor:
    # Not through the inner products, whose cancellation would cost the last digits.
    return torch.cdist(centers, centers, compute_mode="donot_use_mm_for_euclid_dist")


@pytest.mark.parametrize("subspaces", ["auto", "orthogonal", "shared"])
@pytest.mark.parametrize("rotation_seed", [None, 0])
def test_classes_of_a_superclass_stand_closer(subspaces: str, rotation_seed: int | None) -> None:
    tree = tree_from_superclasses(CIFAR100)
    centers = hierarchical_centers(tree, 256, (10.0, 2.0), subspaces=subspaces, rotation_seed=rotation_seed)
    assert centers.shape == (100, 256)
    same = same_superclass(CIFAR100)
    apart = distances(centers)
    within = apart[same & ~torch.eye(100, dtype=torch.bool)]
    assert within.max() < apart[~same].min()
    # Two of five points at distance 2 from their middle are 2√(2·5/4) apart, wherever the middle is.
    torch.testing.assert_close(within, torch.full_like(within, 2 * 2.5**0.5), rtol=1e-4, atol=0)


def test_shared_centers_are_the_papers_sum() -> None:
    centers = hierarchical_centers(
        tree_from_superclasses(CIFAR100), 64, (10.0, 2.0), subspaces="shared", dtype=torch.float64
    )
    parents = max_mahalanobis_centers(20, 64, 10.0, dtype=torch.float64)
    children = max_mahalanobis_centers(5, 64, 2.0, dtype=torch.float64)
    seen = [0] * 20
    for label, superclass in enumerate(CIFAR100):
        torch.testing.assert_close(centers[label], parents[superclass] + children[seen[superclass]])
        seen[superclass] += 1


@pytest.mark.parametrize("rotation_seed", [None, 3])
def test_subtrees_lie_in_orthogonal_subspaces(rotation_seed: int | None) -> None:
    centers = hierarchical_centers(
        tree_from_superclasses(CIFAR100), 99, (10.0, 2.0), rotation_seed=rotation_seed, dtype=torch.float64
    )
    same = same_superclass(CIFAR100).double()
    parents = same @ centers / 5
    offsets = centers - parents
    torch.testing.assert_close(offsets @ parents.mT, torch.zeros(100, 100, dtype=torch.float64), rtol=0, atol=1e-10)
    across = (offsets @ offsets.mT)[same == 0]
    torch.testing.assert_close(across, torch.zeros_like(across), rtol=0, atol=1e-10)
    torch.testing.assert_close(centers.norm(dim=1), torch.full((100,), 104.0, dtype=torch.float64).sqrt())


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=2, max_size=20), st.integers(0, 9), st.sampled_from(["auto", "shared"]))
def test_a_rotation_moves_centers_but_keeps_distances(superclasses: list[int], seed: int, subspaces: str) -> None:
    tree = tree_from_superclasses(superclasses)

    def build(rotation_seed: int | None) -> torch.Tensor:
        return hierarchical_centers(
            tree, 24, (10.0, 2.0), subspaces=subspaces, rotation_seed=rotation_seed, dtype=torch.float64
        )

    same = same_superclass(superclasses)
    torch.testing.assert_close(distances(build(seed))[same], distances(build(None))[same], rtol=1e-9, atol=1e-9)
    assert torch.equal(build(seed), build(seed))
    if max(superclasses.count(s) for s in superclasses) > 2:
        assert not torch.allclose(build(seed), build(None))
        assert not torch.allclose(build(seed), build(seed + 1))


def test_a_rotation_favours_no_direction() -> None:
    """On a line the only rotations are to stay and to turn round: over the seeds both must come."""
    turns = [hierarchical_centers([[0, 1], [2]], 2, (10.0, 2.0), rotation_seed=seed)[0, 1].sign() for seed in range(40)]
    assert abs(sum(turns)) < 24


def test_each_superclass_has_its_own_rotation() -> None:
    tree = [[0, 1, 2], [3, 4, 5]]
    centers = hierarchical_centers(tree, 6, (10.0, 2.0), subspaces="shared", rotation_seed=0)
    assert not torch.allclose(centers[0] - centers[:3].mean(dim=0), centers[3] - centers[3:].mean(dim=0), atol=0.1)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 12), st.integers(11, 16), st.sampled_from(["auto", "orthogonal", "shared"]))
def test_one_level_is_max_mahalanobis(num_classes: int, dim: int, subspaces: str) -> None:
    flat = hierarchical_centers(list(range(num_classes)), dim, (7.0,), subspaces=subspaces, rotation_seed=1)
    torch.testing.assert_close(flat, max_mahalanobis_centers(num_classes, dim, 7.0))


def test_a_deep_tree_adds_one_offset_a_level_and_none_for_a_lone_child() -> None:
    cat, dog, car, truck, plane = hierarchical_centers(TREE, 4, (8.0, 4.0, 1.0), dtype=torch.float64)
    # Four branchings of two: root, animal, vehicle, road; each has one coordinate, in that order.
    assert cat.tolist() == [8, 4, 0, 0]
    assert dog.tolist() == [8, -4, 0, 0]
    assert car.tolist() == [-8, 0, 4, 1]
    assert truck.tolist() == [-8, 0, 4, -1]
    assert plane.tolist() == [-8, 0, -4, 0]


def test_rows_follow_the_classes_or_the_labels() -> None:
    by_appearance = hierarchical_centers(TREE, 4, (8.0, 4.0, 1.0))
    by_name = hierarchical_centers(TREE, 4, (8.0, 4.0, 1.0), classes=["plane", "truck", "car", "dog", "cat"])
    assert torch.equal(by_name, by_appearance.flip(0))
    by_label = hierarchical_centers([[4, 3], [[2, 1], [0]]], 4, (8.0, 4.0, 1.0))
    assert torch.equal(by_label, by_appearance.flip(0))


def test_auto_shares_coordinates_where_the_dimension_is_small() -> None:
    tree = tree_from_superclasses(CIFAR100)
    for dim, like in ((98, "shared"), (99, "orthogonal")):
        auto = hierarchical_centers(tree, dim, (10.0, 2.0))
        assert torch.equal(auto, hierarchical_centers(tree, dim, (10.0, 2.0), subspaces=like))


def test_superclasses_become_a_tree() -> None:
    assert tree_from_superclasses([2, 0, 2, 5]) == {0: [1], 2: [0, 2], 5: [3]}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hierarchical_centers([0, [1, 1]], 4, (1.0, 1.0)), r"but 1 is a leaf twice"),
        (lambda: hierarchical_centers({"a": ["x"], "b": []}, 4, (1.0, 1.0)), r"the root > 'b' is empty"),
        (lambda: hierarchical_centers([], 4, ()), r"the root is empty"),
        (lambda: hierarchical_centers({"a": ["x", 1.5]}, 4, (1.0, 1.0)), r"the root > 'a' > 1 holds 1\.5"),
        (lambda: hierarchical_centers("cat", 4, (1.0,)), r"got the name 'cat' alone"),
        (lambda: hierarchical_centers(["cat", 1], 4, (1.0,)), r"only names or only labels.*'cat' and 1"),
        (lambda: hierarchical_centers([0, 2], 4, (1.0,)), r"leaf 2, which is not one of the labels 0\.\.1"),
        (lambda: hierarchical_centers(["a", "b"], 4, (1.0,), classes=["a", "c"]), r"leaf 'b', which is not one of cl"),
        (lambda: hierarchical_centers(["a"], 4, (1.0,), classes=["a", "c"]), r"'c' of classes is missing"),
        (lambda: hierarchical_centers(["a"], 4, (1.0,), classes=["a", "a"]), r"'a' occurs twice"),
        (lambda: hierarchical_centers([0, 1], 4, (1.0,), classes=["a", "b"]), r"classes must be left out"),
        (lambda: hierarchical_centers(TREE, 4, (1.0, 1.0)), r"each of the tree's 3 levels, depth 1 first; got 2"),
        (lambda: hierarchical_centers([0, 1], 4, (1.0, 1.0)), r"each of the tree's 1 levels, depth 1 first; got 2"),
        (lambda: hierarchical_centers([0, [1, 2]], 4, (1.0, 0.0)), r"norms \(depth 2\) must be a positive.*got 0\.0"),
        (lambda: hierarchical_centers([0, 1], 0, (1.0,)), r"dim must be"),
        (lambda: hierarchical_centers([0, 1, 2], 1, (1.0,), subspaces="orthogonal"), r"needs dim >= 2.*got dim=1"),
        (
            lambda: hierarchical_centers([0, 1], 1, (1.0,), subspaces="share"),
            r"'share' is unknown; did you mean 'shared'\?",
        ),
        (lambda: hierarchical_centers([0, 1], 1, (1.0,), dtype=torch.int32), r"dtype must be"),
        (lambda: tree_from_superclasses([]), r"at least one class; got none"),
    ],
)
def test_a_callers_mistake_is_named(call, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
