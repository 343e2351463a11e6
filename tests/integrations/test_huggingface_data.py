"""Data sets of Hugging Face's library, made and read by that library."""

import io
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from PIL import Image

from maxmahal.data import load_dataset
from maxmahal.data.stream import StreamedData
from maxmahal.errors import DataError

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 6, 7, 3), dtype=np.uint8)
LABELS = [2, 0, 1, 1, 0]


@pytest.fixture
def datasets(library: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    found = library("datasets")
    monkeypatch.setattr(found.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(found.config, "HF_HUB_OFFLINE", True)
    return found


def make(datasets: ModuleType, **columns: object) -> object:
    """A data set in memory; images are kept as PNG."""
    kinds = {"picture": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog", "owl", "yak"])}
    values = {"picture": [Image.fromarray(image) for image in IMAGES], "label": LABELS, **columns}
    features = datasets.Features({name: kinds.get(name, datasets.Value("int64")) for name in values})
    return datasets.Dataset.from_dict(values, features=features)


def test_a_data_set_is_read_as_a_stream(datasets: ModuleType) -> None:
    data = load_dataset(make(datasets), "test", stream=True)
    assert isinstance(data, StreamedData)
    assert data.class_names == ("cat", "dog", "owl", "yak")
    assert data.labels.tolist() == LABELS
    chosen = data.select(torch.tensor([3, 1])).to("cpu")
    assert torch.equal(chosen.images, torch.from_numpy(IMAGES[[3, 1]]).permute(0, 3, 1, 2))
    assert torch.equal(load_dataset(make(datasets), "test").images, data.to("cpu").images)


def test_a_data_set_is_loaded_by_name(datasets: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner/own").mkdir(parents=True)
    make(datasets).to_parquet("owner/own/validation-0.parquet")  # type: ignore[attr-defined]
    data = load_dataset("hf:owner/own@6-4", "test", stream=True)
    assert (data.name, data.image_shape, len(data)) == ("hf:owner/own@6-4", (3, 4, 4), 5)
    assert len(load_dataset("hf:owner/own:validation", "train", stream=True)) == 5
    with pytest.raises(DataError, match="has no split 'train'; write hf:owner/own:SPLIT, one of validation"):
        load_dataset("hf:owner/own", "train")
    with pytest.raises(DataError, match="hf:owner/none cannot be loaded"):
        load_dataset("hf:owner/none", "test")


def test_classes_without_names_are_numbered_by_the_training_part(
    datasets: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own").mkdir()
    for split, label in {"train": 6, "test": 0}.items():
        data = make(datasets).cast_column("label", datasets.Value("int64"))  # type: ignore[attr-defined]
        data.map(lambda _, label=label: {"label": label}).to_parquet(f"own/{split}-0.parquet")
    train, test = (load_dataset("hf:own", split) for split in ("train", "test"))
    assert train.class_names == test.class_names == ("0", "1", "2", "3", "4", "5", "6")
    assert test.labels.tolist() == [0] * 5


def test_code_in_a_data_set_does_not_run(datasets: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own").mkdir()
    Path("own/own.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    with pytest.raises(DataError, match="hf:own cannot be loaded"):
        load_dataset("hf:own", "test")
    assert not Path("ran").exists()


def test_what_cannot_be_used_is_one_sentence(datasets: ModuleType) -> None:
    data = make(datasets)
    for wrong in (data.to_iterable_dataset(), datasets.DatasetDict(test=data)):  # type: ignore[attr-defined]
        with pytest.raises(DataError, match="has no samples by number; choose one split"):
            load_dataset(wrong, "test")
    with pytest.raises(DataError, match="needs a column of images and one of class labels; it has picture"):
        load_dataset(data.remove_columns("label"), "test")  # type: ignore[attr-defined]
    stream = io.BytesIO()
    Image.fromarray(IMAGES[0]).save(stream, format="GIF")
    broken = [{"bytes": stream.getvalue(), "path": None}] * 5
    with pytest.raises(DataError, match=r"image 0 is damaged \(it is not a PNG or JPEG image"):
        load_dataset(make(datasets, picture=broken), "test")


def test_a_row_without_an_image_is_one_sentence(datasets: ModuleType) -> None:
    for number in (0, 3):
        pictures = [None if row == number else Image.fromarray(image) for row, image in enumerate(IMAGES)]
        with pytest.raises(DataError, match=rf"image {number} is damaged \(it has neither bytes nor a path\)"):
            load_dataset(make(datasets, picture=pictures), "test")


def test_a_path_leads_to_no_file_outside_of_the_data_set(
    datasets: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for place in ("own/cat", "own/dog", "hub/datasets--a--b"):
        Path(place).mkdir(parents=True)
        Image.fromarray(IMAGES[0]).save(f"{place}/0.png")
    Image.fromarray(IMAGES[1]).save("private.png")
    pixels = torch.from_numpy(IMAGES[0]).permute(2, 0, 1)
    assert torch.equal(load_dataset("hf:own:train", "test").images, pixels.expand(2, -1, -1, -1)), "its own files"

    Path("other").mkdir()
    Path("other/link.png").symlink_to(tmp_path / "private.png")
    for path in (f"{tmp_path}/private.png", "private.png", "other/../private.png", "other/link.png"):
        data = make(datasets, picture=[{"bytes": None, "path": path}] * 5)
        reason = r"image 0 is damaged \(it is a file outside of the data set\); save the images in the data set"
        with pytest.raises(DataError, match=reason):
            load_dataset(data, "test")
        data.to_parquet("other/test-0.parquet")  # type: ignore[attr-defined]
        with pytest.raises(DataError, match=f"hf:other, {reason}"):
            load_dataset("hf:other", "test")
    with pytest.raises(DataError, match=r"image 0 is damaged \(.*null byte"):
        load_dataset(make(datasets, picture=[{"bytes": None, "path": "a\0b"}] * 5), "test")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    cached = make(datasets, picture=[{"bytes": None, "path": "hub/datasets--a--b/0.png"}] * 5)
    assert torch.equal(load_dataset(cached, "test").images[4], pixels), "what the library has downloaded"
