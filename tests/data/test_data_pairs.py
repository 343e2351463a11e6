"""Data passed from Python: a pair of images and labels."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from maxmahal.data import ImageData, load_dataset
from maxmahal.errors import DataError

pytestmark = pytest.mark.usefixtures("unchecked")
PIXELS = np.random.default_rng(0).integers(0, 256, (4, 3, 6, 5), dtype=np.uint8)
LABELS = np.array([0, 2, 1, 2])


@pytest.mark.parametrize(
    "pair",
    [
        (PIXELS, LABELS),
        [torch.from_numpy(PIXELS), torch.from_numpy(LABELS)],
        (torch.from_numpy(PIXELS) / 255, torch.from_numpy(LABELS).int()),
        (PIXELS.transpose(0, 2, 3, 1) / 255, LABELS.astype(np.uint8)),
        TensorDataset(torch.from_numpy(PIXELS) / 255, torch.from_numpy(LABELS)),
    ],
    ids=["bytes", "list", "floats", "channels last", "TensorDataset"],
)
def test_a_pair_is_a_data_set(pair: object) -> None:
    for split in ("train", "test"):
        data = load_dataset(pair, split)
        assert torch.equal(data.images, torch.from_numpy(PIXELS))
        assert torch.equal(data.labels, torch.from_numpy(LABELS))
        assert data.class_names == ("0", "1", "2")
        assert data.sample_ids.tolist() == [0, 1, 2, 3]


def test_class_names_may_be_a_third_part() -> None:
    assert load_dataset((PIXELS, LABELS, ["a", "b", "c", "d"])).class_names == ("a", "b", "c", "d")


def test_true_and_false_are_the_classes_1_and_0(tmp_path: Path) -> None:
    assert load_dataset((PIXELS, LABELS == 2)).labels.tolist() == [0, 1, 0, 1]
    assert load_dataset((PIXELS, torch.from_numpy(LABELS == 2))).class_names == ("0", "1")
    np.savez(tmp_path / "mine.npz", images=PIXELS, labels=LABELS == 2)
    assert load_dataset(tmp_path / "mine.npz").class_names == ("0", "1")


def test_a_data_set_is_shown_in_one_line() -> None:
    assert repr(load_dataset("digits", "test")) == "ImageData(digits, 500 images of 1x8x8, 10 classes)"


def test_half_floats_are_understood() -> None:
    images = torch.ones(2, 1, 4, 4, dtype=torch.bfloat16)
    assert torch.equal(load_dataset((images, torch.tensor([0, 1]))).images, torch.full((2, 1, 4, 4), 255).byte())


def test_image_data_and_paths_pass_too(tmp_path: Path) -> None:
    data = ImageData.from_arrays("mine", torch.from_numpy(PIXELS), torch.from_numpy(LABELS), "abc")
    assert load_dataset(data, "test") is data
    np.savez(tmp_path / "mine.npz", images=PIXELS, labels=LABELS)
    assert torch.equal(load_dataset(tmp_path / "mine.npz").images, data.images)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ((PIXELS,), r"a pair \(images, labels\) of arrays or tensors; got 1 parts"),
        (iter([PIXELS]), "a pair .*; got a list_iterator"),
        ((PIXELS, LABELS[:3]), "labels must be 4 whole numbers, one for each image"),
        ((PIXELS, LABELS / 1), "labels must be 4 whole numbers.*float64"),
        ((PIXELS.astype(float), LABELS), r"images are floats and must lie in \[0, 1\]"),
        ((PIXELS.tolist(), LABELS), "images must be an array or a tensor; got a list"),
        ((PIXELS, LABELS, "abc"), "must be a list of texts; got 'abc'"),
        ((PIXELS, LABELS, ["a", "b"]), "name every class"),
        (DataLoader([(PIXELS[0], 2, 7)]), r"A batch must be a pair of images and labels; got 3 parts\. Let the data"),
        (DataLoader(torch.zeros(4, 1, 6, 5)), r"A batch must be a pair of images and labels; got a Tensor\."),
    ],
)
def test_mistakes_are_told_in_one_sentence(source: object, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        load_dataset(source)
