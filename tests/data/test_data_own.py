"""A user's own data: an npz file, a folder of images, a function."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from maxmahal.data import DataNotice, load_dataset
from maxmahal.errors import DataError, MaxmahalError

Draw = Callable[..., np.ndarray]
LABELS = np.array([0, 1, 2, 1])


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def save(path: Path, **arrays: object) -> str:
    np.savez(path, **arrays)
    return str(path)


@pytest.mark.parametrize("layout", ["NHW", "NHWC grey", "NHWC", "NCHW"])
def test_npz_layouts_become_nchw(tmp_path: Path, random_images: Draw, layout: str) -> None:
    expected = random_images(4, 3 if layout in ("NHWC", "NCHW") else 1, 6, 5)
    arrays = {"NHW": expected[:, 0], "NCHW": expected}
    images = arrays.get(layout, expected.transpose(0, 2, 3, 1))
    name = save(tmp_path / "mine.npz", images=images, labels=LABELS)
    assert torch.equal(load_dataset(name, "train").images, torch.from_numpy(expected))


def test_npz_floats_are_rounded_to_bytes(tmp_path: Path) -> None:
    images = np.linspace(0, 1, 4 * 6 * 5).reshape(4, 6, 5)
    with pytest.warns(
        DataNotice, match=r"mine\.npz: images are stored as bytes: pixels were rounded by up to 0\.43/255\."
    ):
        data = load_dataset(save(tmp_path / "mine.npz", images=images, labels=LABELS))
    assert torch.equal(data.images, torch.from_numpy(np.round(images * 255).astype(np.uint8))[:, None])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_floats_that_were_bytes_are_taken_without_a_word(kind: type) -> None:
    pixels = np.arange(256, dtype=np.uint8).reshape(1, 16, 16)
    data = load_dataset((pixels.astype(kind) * kind(1 / 255), np.array([0])))  # a warning would be an error here
    assert torch.equal(data.images[:, 0], torch.from_numpy(pixels))


def test_missing_values_are_counted(tmp_path: Path) -> None:
    images = np.full((4, 6, 5), 0.5)
    images[1, :2, 3] = np.nan
    with pytest.raises(DataError, match="found 2 NaN among 120 values"):
        load_dataset(save(tmp_path / "mine.npz", images=images, labels=LABELS))


@pytest.mark.parametrize("wrong", [-0.01, 1.01, 255.0, np.nan])
def test_npz_floats_outside_the_unit_range_are_refused(tmp_path: Path, wrong: float) -> None:
    images = np.full((4, 6, 5), 0.5)
    images[2, 3, 1] = wrong
    with pytest.raises(DataError, match=r"must lie in \[0, 1\]; found"):
        load_dataset(save(tmp_path / "mine.npz", images=images, labels=LABELS))


def test_npz_parts_share_the_classes(tmp_path: Path, random_images: Draw) -> None:
    images = random_images(4, 6, 5)
    name = save(tmp_path / "a.npz", images=images, labels=LABELS, test_images=images[:1], test_labels=LABELS[:1])
    assert load_dataset(name, "train").class_names == load_dataset(name, "test").class_names == ("0", "1", "2")
    name = save(tmp_path / "b.npz", images=images, labels=LABELS, class_names=np.array(["cat", "dog", "owl", "yak"]))
    assert load_dataset(name, "train").class_names == ("cat", "dog", "owl", "yak")


GOOD = np.zeros((4, 6, 5), dtype=np.uint8)


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"labels": LABELS}, r"no array 'images', which training needs \(it has: labels\)"),
        ({"images": GOOD}, "no array 'labels'"),
        ({"images": GOOD, "labels": LABELS[:3]}, "must be 4 whole numbers"),
        ({"images": GOOD, "labels": LABELS.astype(float)}, "whole numbers.*got float64"),
        ({"images": GOOD, "labels": LABELS - 1}, "must number the classes from 0; got -1"),
        ({"images": GOOD[0], "labels": LABELS}, "must be images NHW, NHWC or NCHW"),
        ({"images": GOOD[:0], "labels": LABELS[:0]}, "at least one image"),
        ({"images": GOOD.astype(np.int64), "labels": LABELS}, r"bytes \(uint8\) or floats in \[0, 1\]; got int64"),
        ({"images": np.zeros((4, 3, 8, 3), np.uint8), "labels": LABELS}, "is ambiguous"),
        ({"images": np.zeros((4, 5, 8, 7), np.uint8), "labels": LABELS}, "must have 1 or 3 channels"),
        ({"images": GOOD, "labels": LABELS, "class_names": np.array(["a", "b"])}, r"must lie in 0\.\.1"),
        ({"images": GOOD, "labels": LABELS, "class_names": np.array([1, 2, 3])}, "class_names must be a list of texts"),
        ({"images": GOOD, "labels": np.array([{}] * 4)}, "is damaged"),  # would need pickle
    ],
)
def test_npz_mistakes_are_named(tmp_path: Path, arrays: dict[str, np.ndarray], reason: str) -> None:
    with pytest.raises(DataError, match=rf"mine\.npz.*{reason}"):
        load_dataset(save(tmp_path / "mine.npz", **arrays))


def test_npz_without_a_test_part_says_what_to_add(tmp_path: Path) -> None:
    name = save(tmp_path / "mine.npz", images=GOOD, labels=LABELS)
    with pytest.raises(DataError, match=r"no array 'test_images'.*numpy\.savez"):
        load_dataset(name, "test")


def test_a_test_part_alone_is_enough_to_evaluate_on(tmp_path: Path) -> None:
    name = save(tmp_path / "mine.npz", test_images=GOOD, test_labels=LABELS)
    test = load_dataset(name, "test")
    assert test.class_names == ("0", "1", "2")
    assert test.labels.tolist() == LABELS.tolist()
    with pytest.raises(DataError, match="no array 'images', which training needs"):
        load_dataset(name, "train")


def test_nobody_is_advised_to_unpickle(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    path.write_text("images, labels")
    with pytest.raises(DataError, match=r"not an \.npz archive") as text:
        load_dataset(str(path))
    np.savez(path, images=GOOD, labels=np.array([{}] * 4))
    with pytest.raises(DataError, match="holds Python objects") as objects:
        load_dataset(str(path))
    assert "pickle" not in str(text.value) + str(objects.value)


def test_an_unknown_name_tells_what_else_may_be_given(in_tmp: Path) -> None:
    for name in ("mypictures", "images.npy", "./mypictures"):
        with pytest.raises(DataError, match=r"\.npz.*folder with train/ and test/.*package\.module:function"):
            load_dataset(name)
    with pytest.raises(DataError, match=r"images\.npy would be a single array"):
        load_dataset("images.npy")


def test_damaged_npz_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    with pytest.raises(DataError, match=rf"There is no file {path}; correct the path"):
        load_dataset(str(path))
    np.savez_compressed(path, images=GOOD, labels=LABELS)
    good = path.read_bytes()
    damaged = [good[:cut] for cut in range(0, len(good), 7)]
    damaged += [good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1 :] for at in range(30, 120)]
    for content in damaged:
        path.write_bytes(content)
        refused = False
        try:
            load_dataset(str(path))
        except DataError:
            refused = True
        assert refused or len(content) == len(good)
    with path.open("wb") as stream:
        np.save(stream, GOOD)
    with pytest.raises(DataError, match=r"it is not an \.npz archive"):
        load_dataset(str(path))


def save_image(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


@pytest.fixture
def pictures(tmp_path: Path, random_images: Draw) -> Path:
    root = tmp_path / "pictures"
    for seed, name in enumerate(["train/dog/b.png", "train/cat/2.PNG", "train/cat/1.png", "test/dog/x.png"]):
        save_image(root / name, random_images(6, 5, 3, seed=seed))
    (root / "train/cat/.DS_Store").write_text("not an image")
    return root


def test_a_folder_is_read_in_alphabetical_order(pictures: Path, random_images: Draw) -> None:
    train, test = load_dataset(str(pictures), "train"), load_dataset(str(pictures), "test")
    assert train.class_names == test.class_names == ("cat", "dog")
    assert (train.labels.tolist(), test.labels.tolist()) == ([0, 0, 1], [1])
    expected = np.stack([random_images(6, 5, 3, seed=seed) for seed in (2, 1, 0)]).transpose(0, 3, 1, 2)
    assert torch.equal(train.images, torch.from_numpy(expected.copy()))


def test_grey_folders_have_one_channel_and_stray_grey_is_turned_to_colour(pictures: Path, random_images: Draw) -> None:
    save_image(pictures / "train/dog/grey.png", random_images(6, 5))
    assert load_dataset(str(pictures)).images[3, :, 2, 2].unique().numel() == 1
    grey = pictures.parent / "grey"
    for name in ("train/a/1.png", "test/a/1.jpg"):
        save_image(grey / name, random_images(6, 5))
    assert load_dataset(str(grey), "test").image_shape == (1, 6, 5)
    save_image(grey / "train/a/2.png", random_images(6, 5, 3))
    with pytest.raises(DataError, match=r"2\.png is in colour but the first training image is grey"):
        load_dataset(str(grey))


def test_an_odd_file_in_a_folder_is_named(pictures: Path, random_images: Draw) -> None:
    odd = pictures / "train/dog/odd.png"
    save_image(odd, random_images(6, 7, 3))
    with pytest.raises(DataError, match=rf"{odd} is 7x6 pixels but .*1\.png is 5x6"):
        load_dataset(str(pictures))
    good = (pictures / "train/dog/b.png").read_bytes()
    for content in (b"", b"not a png", *(good[:cut] for cut in range(10, len(good) - 20, 9))):
        odd.write_bytes(content)
        with pytest.raises(DataError, match=rf"{odd} is damaged .* delete it"):
            load_dataset(str(pictures))
    Image.fromarray(np.zeros((6, 5), dtype=np.uint16)).save(odd)
    with pytest.raises(DataError, match=r"not 8-bit grey or colour"):
        load_dataset(str(pictures))


def test_missing_parts_of_a_folder_say_what_to_add(pictures: Path) -> None:
    (pictures / "test/bird").mkdir()
    with pytest.raises(DataError, match=r"test/bird has no class of that name"):
        load_dataset(str(pictures), "test")
    (pictures / "train/ape").mkdir()
    with pytest.raises(DataError, match=r"train/ape holds no png or jpg images; add some"):
        load_dataset(str(pictures))
    (pictures / "test").rename(pictures / "tests")
    (pictures / "train/ape").rmdir()
    with pytest.raises(DataError, match=r"test is missing; put the images of class NAME into .*test/NAME/"):
        load_dataset(str(pictures), "test")
    with pytest.raises(DataError, match=r"There is no folder \./nowhere"):
        load_dataset("./nowhere")


FACTORY = """
import numpy as np
import torch
from maxmahal.data import ImageData

def pair(split):
    count = {"train": 4, "test": 2}[split]
    return np.zeros((count, 6, 5), np.uint8), torch.arange(count)

def whole(split):
    images = torch.zeros(2, 3, 6, 5, dtype=torch.uint8)
    return ImageData.from_arrays("whole", images, torch.tensor([0, 1]), ["a", "b"])

def train_only(split):
    return pair(split) if split == "train" else None

def too_many(split):
    return np.zeros((1, 6, 5), np.uint8), np.array([0 if split == "train" else 5])

number = 7
"""


@pytest.fixture
def factory(in_tmp: Path) -> str:
    module = f"factory_{in_tmp.name.replace('-', '_')}"
    (in_tmp / f"{module}.py").write_text(FACTORY)
    return module


def test_a_factory_in_the_current_folder_is_called_with_the_split(factory: str) -> None:
    before = list(sys.path)
    train, test = load_dataset(f"{factory}:pair", "train"), load_dataset(f"{factory}:pair", "test")
    assert sys.path == before
    assert (len(train), len(test), train.image_shape) == (4, 2, (1, 6, 5))
    assert train.class_names == test.class_names == ("0", "1", "2", "3")
    assert load_dataset(f"{factory}:whole").name == "whole"


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("train_only", r"must return an ImageData or a pair \(images, labels\); got a NoneType"),
        ("too_many", r"labels must lie in 0\.\.0"),
        ("pairs", "has no function 'pairs'; did you mean 'pair'"),
        ("number", "has no function 'number'"),
    ],
)
def test_factory_mistakes_are_named(factory: str, function: str, reason: str) -> None:
    with pytest.raises(MaxmahalError, match=reason):
        load_dataset(f"{factory}:{function}", "test")


def test_a_missing_module_is_told_from_a_module_that_misses_something(in_tmp: Path) -> None:
    with pytest.raises(MaxmahalError, match="there is no module 'nowhere_at_all' here"):
        load_dataset("nowhere_at_all.data:load")
    (in_tmp / "needs_more.py").write_text("import nowhere_at_all")
    with pytest.raises(
        MaxmahalError, match="cannot be imported: ModuleNotFoundError: No module named 'nowhere_at_all'"
    ):
        load_dataset("needs_more:load")


def test_a_label_beyond_reason_is_refused_at_once(in_tmp: Path) -> None:
    np.savez(in_tmp / "ids.npz", images=np.zeros((2, 4, 4), np.uint8), labels=np.array([0, 3_000_000_000]))
    with pytest.raises(DataError, match=r"the highest label is 3000000000.*number the classes"):
        load_dataset(str(in_tmp / "ids.npz"))
