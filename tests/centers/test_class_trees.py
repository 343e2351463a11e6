"""Trees of classes: learned from mistakes, kept in files, dealt out at random, and what centers make of them."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmahal.centers import (
    CENTERS,
    ClassTree,
    cluster_mistakes,
    cut_merges,
    hierarchical_centers,
    likeness,
    load_tree,
    shuffle_superclasses,
    tree_from_superclasses,
    write_tree,
)
from maxmahal.data import CIFAR100_SUPERCLASSES
from maxmahal.errors import ArgumentError, SettingsError

pytestmark = pytest.mark.usefixtures("unchecked")


def blocks(groups: list[list[int]], classes: int, strong: int = 9) -> np.ndarray:
    """Many mistakes within groups, a few outside of them."""
    counts = np.full((classes, classes), 1)
    for group in groups:
        counts[np.ix_(group, group)] = strong
    np.fill_diagonal(counts, 50)
    return counts


# Clustering


def test_likeness_is_the_mean_of_both_error_rates() -> None:
    found = likeness(np.array([[6, 4, 0], [0, 20, 0], [1, 1, 0]]))
    np.testing.assert_allclose(found, [[0, 0.2, 0.25], [0.2, 0, 0.25], [0.25, 0.25, 0]])


def test_a_class_without_images_is_like_no_other() -> None:
    assert likeness(np.array([[3, 1], [0, 0]])).tolist() == [[0.0, 0.125], [0.125, 0.0]]


def test_groups_of_mistakes_are_found_and_numbered_by_their_first_class() -> None:
    groups = [[0, 4, 7], [1, 2], [3, 5, 6]]
    assert cut_merges(cluster_mistakes(blocks(groups, 8)), 3) == (0, 1, 1, 2, 0, 2, 2, 0)


def test_a_class_that_is_never_mistaken_is_a_superclass_of_its_own() -> None:
    counts = blocks([[0, 1], [2, 3]], 5)
    counts[4, :4] = counts[:4, 4] = 0
    assert cut_merges(cluster_mistakes(counts), 3) == (0, 0, 1, 1, 2)


def test_classes_that_nothing_joins_do_not_gather_in_one_heap() -> None:
    counts = np.diag([10] * 9)
    counts[0, 1] = counts[1, 2] = 5
    superclasses = cut_merges(cluster_mistakes(counts), 3)
    assert max(superclasses.count(each) for each in superclasses) <= 4


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 14), st.integers(0, 10_000), st.data())
def test_average_linkage_is_scipys(classes: int, seed: int, data: st.DataObject) -> None:
    hierarchy = pytest.importorskip("scipy.cluster.hierarchy")
    counts = np.random.default_rng(seed).integers(1, 10_000, (classes, classes))
    alike = likeness(counts)
    far = 1 - alike[np.triu_indices(classes, 1)]
    linkage = hierarchy.linkage(far, "average")
    merges = cluster_mistakes(counts)
    assert [merge.likeness for merge in merges] == pytest.approx((1 - linkage[:, 2]).tolist())
    count = data.draw(st.integers(1, classes))
    theirs = hierarchy.fcluster(linkage, count, "maxclust")
    ours = cut_merges(merges, count)
    pairs = set(zip(ours, theirs.tolist(), strict=True))
    assert len(pairs) == len(set(ours)) == count


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cluster_mistakes(np.diag([3, 4])), "nothing to cluster by"),
        (lambda: likeness(np.zeros((2, 3))), r"must be square.*\(2, 3\)"),
        (lambda: likeness(np.array([[1, -1], [0, 1]])), "no entry can be negative"),
        (lambda: cut_merges(cluster_mistakes(blocks([[0, 1]], 3)), 4), "between 1 and 3 superclasses; got 4"),
        (lambda: cut_merges(cluster_mistakes(blocks([[0, 1]], 3)), 0), "between 1 and 3 superclasses; got 0"),
    ],
)
def test_what_cannot_be_clustered_is_told(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ArgumentError, match=message):
        call()


# Files


def test_a_tree_comes_back_from_its_file(tmp_path: Path) -> None:
    tree = ClassTree((1, 0, 1), ("cat", 'the "dog"', "ä"), "made up")
    write_tree(tmp_path / "tree.toml", tree)
    assert load_tree(str(tmp_path / "tree.toml")) == tree
    assert tree.groups() == [['the "dog"'], ["cat", "ä"]]
    assert ClassTree((0, 1, 0)).groups() == [["0", "2"], ["1"]]


GOOD = 'format = "maxmahal-tree-1"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("superclasses = [0, 1", "is not valid TOML"),
        ("superclasses = [0, 1]", r"is not a tree of classes \(its format is None"),
        (GOOD, "the superclass of at least one class; got none"),
        (GOOD + "superclasses = [0, 1.5]", r"superclasses\[1\] must be an integer; got 1\.5"),
        (GOOD + "superclasses = 3", "superclasses must be a list of integers; got 3"),
        (GOOD + 'superclasses = [0, 1]\nclass_names = ["a"]', "got 1 names for 2 classes"),
        (GOOD + "superclasses = [0]\nsuperclass = 1", "'superclass' is not a part of a tree; did you mean"),
    ],
)
def test_a_bad_file_is_told_in_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "tree.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=message) as caught:
        load_tree(str(path))
    assert str(path) in str(caught.value)


def test_a_missing_tree_is_told() -> None:
    with pytest.raises(SettingsError, match=r"Cannot read no/such\.toml"):
        load_tree("no/such.toml")
    with pytest.raises(SettingsError, match=r"`maxmahal tree RUN --out tree\.toml` makes one"):
        load_tree("no-such-tree")


# Centers


def test_a_shuffled_tree_keeps_the_sizes_and_is_another_one_for_each_seed() -> None:
    first, second = (shuffle_superclasses(CIFAR100_SUPERCLASSES, seed) for seed in (0, 1))
    assert sorted(first) == sorted(second) == sorted(CIFAR100_SUPERCLASSES)
    assert len({first, second, CIFAR100_SUPERCLASSES}) == 3
    assert first == shuffle_superclasses(CIFAR100_SUPERCLASSES, 0)


def test_centers_take_their_tree_from_a_file_or_shuffle_it(tmp_path: Path) -> None:
    path = tmp_path / "tree.toml"
    write_tree(path, ClassTree((0, 1, 1, 0)))
    build = CENTERS["hierarchical"]
    wanted = hierarchical_centers(tree_from_superclasses([0, 1, 1, 0]), 6, (10.0, 2.0))
    assert torch.equal(build(4, 6, None, tree=str(path)), wanted)
    assert torch.equal(build(4, 6, [0, 0, 1, 1], tree=str(path)), wanted)  # the file wins over the data set's own
    dealt = shuffle_superclasses([0, 1, 1, 0], 3)
    by_hand = hierarchical_centers(tree_from_superclasses(dealt), 6, (10.0, 2.0))
    assert torch.equal(build(4, 6, [0, 1, 1, 0], shuffle_seed=3), by_hand)
    with pytest.raises(ArgumentError, match=r"the tree '.*tree\.toml' must give one .* each of the 5 classes; got 4"):
        build(5, 6, None, tree=str(path))


def test_lone_classes_are_stretched_to_the_length_of_the_others() -> None:
    build = CENTERS["hierarchical"]
    superclasses = [0, 0, 1, 2, 2, 2]  # class 1's only child stays at its parent's place
    plain = build(6, 16, superclasses, norms=(8.0, 6.0)).norm(dim=1)
    assert plain.tolist() == pytest.approx([10, 10, 8, 10, 10, 10])
    assert build(6, 16, superclasses, norms=(8.0, 6.0), length=10.0).norm(dim=1).tolist() == pytest.approx([10] * 6)
    with pytest.raises(ArgumentError, match="cannot stretch a center at the origin"):
        build(1, 4, [0], norms=(8.0, 6.0), length=10.0)
    with pytest.raises(ArgumentError, match="length must be a positive"):
        build(6, 16, superclasses, length=-1.0)


@pytest.mark.parametrize("ratio", [0.05, 0.1, 0.2, 0.5, 1.0])
@pytest.mark.parametrize(
    ("subspaces", "rotation_seed"), [("orthogonal", -1), ("orthogonal", 0), ("shared", -1), ("shared", 0)]
)
def test_cifar100_centers_of_every_arm(ratio: float, subspaces: str, rotation_seed: int) -> None:
    """Their mean square is 10² in every form, and in orthogonal subspaces each has that length."""
    outer = 10 / math.sqrt(1 + ratio**2)
    centers = CENTERS["hierarchical"](
        100,
        256,
        CIFAR100_SUPERCLASSES,
        norms=(outer, ratio * outer),
        subspaces=subspaces,
        rotation_seed=rotation_seed,
    ).double()
    lengths = centers.norm(dim=1)
    assert float(lengths.square().mean().sqrt()) == pytest.approx(10, abs=1e-4)
    if subspaces == "orthogonal":
        assert lengths.tolist() == pytest.approx([10.0] * 100, abs=1e-4)
    apart = torch.cdist(centers, centers, compute_mode="donot_use_mm_for_euclid_dist")
    superclasses = torch.tensor(CIFAR100_SUPERCLASSES)
    siblings = (superclasses[:, None] == superclasses) & ~torch.eye(100, dtype=torch.bool)
    assert apart[siblings].tolist() == pytest.approx([ratio * outer * math.sqrt(2.5)] * 400, rel=1e-3)
    assert apart[~torch.eye(100, dtype=torch.bool)].min() > 0.7
