"""Validation splits: sizes, shares, seeds."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmahal.data import ImageData, train_validation_split
from maxmahal.errors import ArgumentError


def data_with(labels: list[int], classes: int = 5) -> ImageData:
    images = torch.zeros(len(labels), 1, 2, 2, dtype=torch.uint8)
    names = [str(label) for label in range(classes)]
    return ImageData.from_arrays("made up", images, torch.tensor(labels, dtype=torch.int64), names)


@settings(max_examples=60, deadline=None)
@given(labels=st.lists(st.integers(0, 4), min_size=1, max_size=60), share=st.floats(0, 0.999), seed=st.integers(0, 99))
def test_the_parts_are_disjoint_complete_ordered_and_fair(labels: list[int], share: float, seed: int) -> None:
    data = data_with(labels)
    counts = torch.bincount(data.labels, minlength=5)
    validation = int(share * (len(data) - len(set(labels)) + 1))
    train, held_out = train_validation_split(data, validation, seed)
    assert len(held_out) == validation
    ids = torch.cat([train.sample_ids, held_out.sample_ids])
    assert torch.equal(ids.sort().values, data.sample_ids)
    for part in (train, held_out):
        assert torch.equal(part.sample_ids, part.sample_ids.sort().values)
        assert torch.equal(part.labels, data.labels[part.sample_ids])
    fair = counts * validation / len(data)
    held = torch.bincount(held_out.labels, minlength=5)
    assert ((held - fair).abs() < 1).all() or (fair > counts - 1).any()
    assert (held > fair - 1).all()
    assert (held < counts)[counts > 0].all()


def test_balanced_classes_give_equal_shares() -> None:
    train, held_out = train_validation_split(data_with(list(range(5)) * 20), 10, seed=3)
    assert torch.bincount(held_out.labels).tolist() == [2] * 5
    assert torch.bincount(train.labels).tolist() == [18] * 5


@pytest.mark.parametrize(
    ("counts", "validation", "left"),
    [
        ((50, 50, 50, 2, 1), 80, [23, 24, 24, 1, 1]),
        ((20, 1, 1, 1, 1), 12, [8, 1, 1, 1, 1]),
        ((4, 3, 0, 1, 2), 6, [1, 1, 0, 1, 1]),
    ],
)
def test_every_class_keeps_an_image_for_training(counts: tuple[int, ...], validation: int, left: list[int]) -> None:
    labels = [label for label, count in enumerate(counts) for _ in range(count)]
    train, held_out = train_validation_split(data_with(labels), validation, seed=0)
    assert torch.bincount(train.labels, minlength=5).tolist() == left
    assert len(held_out) == validation


def test_the_seed_decides_and_nothing_else() -> None:
    data = data_with(list(range(5)) * 20)
    ids = [train_validation_split(data, 10, seed)[1].sample_ids.tolist() for seed in (0, 0, 1)]
    assert ids[0] == ids[1]
    assert ids[0] != ids[2]


def test_zero_leaves_an_empty_second_part() -> None:
    train, held_out = train_validation_split(data_with([0, 1, 2]), 0, seed=0)
    assert (len(train), len(held_out)) == (3, 0)
    assert held_out.image_shape == (1, 2, 2)


@pytest.mark.parametrize("validation", [-1, 3, 4])
def test_sizes_that_leave_a_class_nothing_to_train_on_are_refused(validation: int) -> None:
    with pytest.raises(
        ArgumentError, match=rf"validation must lie in 0\.\.2 .* each class must keep one.* got {validation}"
    ):
        train_validation_split(data_with([0, 1, 1, 1]), validation, seed=0)
