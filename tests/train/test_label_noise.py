"""Wrong labels on purpose: how many, which ones, and where never."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from maxmahal.data import ImageData, load_dataset
from maxmahal.errors import DataError, SettingsError
from maxmahal.settings import to_table
from maxmahal.train import Settings, load_settings, train_model
from maxmahal.train.splits import load_splits, mislabel

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(scope="module")
def digits() -> ImageData:
    return load_dataset("digits", "train")


def wrong(data: ImageData, share: float, seed: int = 0) -> torch.Tensor:
    return mislabel(data, share, seed).labels != data.labels


@pytest.mark.parametrize("share", [0.2, 0.4, 0.9])
def test_about_that_share_is_wrong(digits: ImageData, share: float) -> None:
    found = float(wrong(digits, share).double().mean())
    assert abs(found - share) < 4 * (share * (1 - share) / len(digits)) ** 0.5


def test_all_labels_can_be_wrong_and_none_of_them_is_by_chance_right(digits: ImageData) -> None:
    assert bool(wrong(digits, 1.0).all())


def test_wrong_labels_are_spread_over_the_other_classes(digits: ImageData) -> None:
    labels = mislabel(digits, 1.0, 0).labels[digits.labels == 3]
    counts = torch.bincount(labels, minlength=10)
    assert counts[3] == 0
    assert int(counts.sum()) == 133
    assert all(4 <= int(count) <= 30 for digit, count in enumerate(counts) if digit != 3)


def test_the_id_decides_and_not_the_place(digits: ImageData) -> None:
    order = torch.randperm(len(digits), generator=torch.Generator().manual_seed(1))
    whole = mislabel(digits, 0.4, 7).labels
    assert torch.equal(mislabel(digits.select(order), 0.4, 7).labels, whole[order])
    assert torch.equal(mislabel(digits.first(50), 0.4, 7).labels, whole[:50])


def test_another_seed_mislabels_others_and_a_smaller_share_fewer_of_the_same(digits: ImageData) -> None:
    assert not torch.equal(wrong(digits, 0.4, 0), wrong(digits, 0.4, 1))
    few, many = wrong(digits, 0.2), wrong(digits, 0.4)
    assert bool((many | ~few).all())
    assert torch.equal(mislabel(digits, 0.2, 0).labels[few], mislabel(digits, 0.4, 0).labels[few])


def test_only_the_training_part_is_touched() -> None:
    parts = {
        share: load_splits(load_settings("digits-at-mmc", [f"data.label_noise={share}"]).data, None, "cpu")
        for share in (0.0, 0.5)
    }
    assert not torch.equal(parts[0.0].train.labels, parts[0.5].train.labels)
    for part in ("validation", "test"):
        assert torch.equal(getattr(parts[0.0], part).labels, getattr(parts[0.5], part).labels)
    assert torch.equal(parts[0.0].train.images, parts[0.5].train.images)


def test_without_noise_the_very_same_data_comes_back(digits: ImageData) -> None:
    assert mislabel(digits, 0.0, 3) is digits


def test_the_run_folder_tells_of_it(tiny_settings: Callable[..., Settings], tmp_path: Path) -> None:
    settings = tiny_settings("digits-mmc", "data.label_noise=0.3", "data.noise_seed=4", "train.epochs=1")
    train_model(settings, tmp_path / "run")
    data = to_table(load_settings(str(tmp_path / "run" / "settings.toml")))["data"]
    assert (data["label_noise"], data["noise_seed"]) == (0.3, 4)


@pytest.mark.parametrize("share", ["-0.1", "1.5"])
def test_what_is_no_share_is_refused(share: str) -> None:
    with pytest.raises(SettingsError, match=r"data\.label_noise is a share"):
        load_settings("digits-mmc", [f"data.label_noise={share}"])


def test_a_single_class_cannot_be_mistaken_for_another(digits: ImageData) -> None:
    one = ImageData.from_arrays("one", digits.images[:4], torch.zeros(4, dtype=torch.int64), ["only"])
    with pytest.raises(DataError, match="at least two classes"):
        mislabel(one, 0.5, 0)
