"""The published data sets, from tiny files in their official formats."""

import gzip
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from maxmahal.data import CIFAR100_SUPERCLASSES, dataset_names, load_dataset, resolve_data_dir
from maxmahal.data.registry import SOURCES
from maxmahal.errors import ArgumentError, DataError

Draw = Callable[..., np.ndarray]


def test_digits_split_the_last_fifty_of_each_class_off() -> None:
    train, test = load_dataset("digits", "train"), load_dataset("digits", "test")
    assert (len(train), len(test)) == (1297, 500)
    assert train.image_shape == (1, 8, 8)
    assert torch.bincount(test.labels).tolist() == [50] * 10
    for digit in range(10):
        assert train.sample_ids[train.labels == digit].max() < test.sample_ids[test.labels == digit].min()
    everything = torch.cat([train.sample_ids, test.sample_ids])
    assert torch.equal(everything.sort().values, torch.arange(1797))


def test_digits_keep_their_pixels_and_labels() -> None:
    original = load_digits()
    test = load_dataset("digits", "test")
    index = int(test.sample_ids[7])
    assert test.images[7, 0].tolist() == [[round(v * 255 / 16) for v in row] for row in original.images[index]]
    assert int(test.labels[7]) == original.target[index]
    assert int(test.images.max()) == 255


def test_cifar10_keeps_the_order_of_the_batches(cifar10_dir: Path, random_images: Draw) -> None:
    train = load_dataset("cifar10", "train", cifar10_dir)
    assert train.labels.tolist() == [label for batch in range(1, 6) for label in (batch, batch + 1, 0, 9)]
    assert train.class_names[3] == "class 3"
    rows = np.concatenate([random_images(4, 3072, seed=batch) for batch in range(1, 6)])
    assert torch.equal(train.images, torch.from_numpy(rows.reshape(20, 3, 32, 32)))


def test_a_batch_as_python_2_wrote_it_is_read(cifar10_dir: Path, random_images: Draw) -> None:
    test = load_dataset("cifar10", "test", str(cifar10_dir))
    assert test.labels.tolist() == [3, 8, 8]
    assert torch.equal(test.images.flatten(1), torch.from_numpy(random_images(3, 3072, seed=6)))


def test_cifar100_has_fine_and_coarse_labels(cifar100_dir: Path) -> None:
    train = load_dataset("cifar100", "train", cifar100_dir)
    assert train.labels.tolist() == [0, 99, 50]
    assert train.coarse_labels is not None
    assert train.coarse_labels.tolist() == [4, 13, 16]
    assert (train.num_classes, train.class_names[99], train.coarse_names[19]) == (100, "fine 99", "coarse 19")
    assert len(load_dataset("cifar100", "test", cifar100_dir)) == 1


def test_the_superclasses_hold_five_classes_each() -> None:
    assert len(CIFAR100_SUPERCLASSES) == 100
    assert np.bincount(CIFAR100_SUPERCLASSES).tolist() == [5] * 20
    # apple, aquarium fish, baby and wolf are fruit, fish, people and large carnivores
    assert [CIFAR100_SUPERCLASSES[index] for index in (0, 1, 2, 97)] == [4, 1, 14, 8]


def test_the_registry_knows_the_superclasses_that_the_loaded_data_have(cifar100_dir: Path) -> None:
    assert SOURCES["cifar100"].superclasses == load_dataset("cifar100", "train", cifar100_dir).superclasses
    assert [name for name, source in SOURCES.items() if source.superclasses is not None] == ["cifar100"]
    assert load_dataset("digits", "test").superclasses is None


@pytest.mark.parametrize("gzipped", [True, False])
@pytest.mark.parametrize(
    ("name", "folder"),
    [("mnist", "MNIST/raw"), ("mnist", "MNIST"), ("mnist", "mnist"), ("fashion-mnist", "FashionMNIST/raw")],
)
def test_idx_files_are_found_and_read(
    tmp_path: Path, write_mnist: Callable[..., None], random_images: Draw, name: str, folder: str, gzipped: bool
) -> None:
    write_mnist(tmp_path / folder, gzipped)
    train, test = load_dataset(name, "train", tmp_path), load_dataset(name, "test", tmp_path)
    assert train.image_shape == (1, 28, 28)
    assert torch.equal(train.images[:, 0], torch.from_numpy(random_images(6, 28, 28, seed=0)))
    assert (train.labels.tolist(), test.labels.tolist()) == ([0, 1, 2, 3, 4, 5], [0, 1, 2, 3])


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10", "cifar100"])
def test_missing_files_are_named_with_the_way_out(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=rf"{tmp_path}.* is missing; run `maxmahal data fetch {name}`"):
        load_dataset(name, "train", tmp_path)


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _lengthened(content: bytes) -> bytes:
    return gzip.compress(gzip.decompress(content) + b"\0")


def _flipped(content: bytes) -> bytes:
    return content[:-6] + bytes([content[-6] ^ 255]) + content[-5:]  # the checksum at the end of a gzip file


@pytest.mark.parametrize("damage", [_cut, _lengthened, _flipped, lambda _: b"", lambda _: b"<html>404</html>"])
@pytest.mark.parametrize("kind", ["images-idx3", "labels-idx1"])
def test_damaged_idx_files_are_named(
    tmp_path: Path, write_mnist: Callable[..., None], damage: Callable[[bytes], bytes], kind: str
) -> None:
    write_mnist(tmp_path / "MNIST/raw")
    path = tmp_path / f"MNIST/raw/train-{kind}-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=rf"{path} is damaged .*`maxmahal data fetch mnist`"):
        load_dataset("mnist", "train", tmp_path)


def test_labels_and_images_must_match_in_number(tmp_path: Path, write_mnist: Callable[..., None]) -> None:
    write_mnist(tmp_path / "MNIST")
    folder = tmp_path / "MNIST"
    (folder / "t10k-labels-idx1-ubyte.gz").replace(folder / "train-labels-idx1-ubyte.gz")
    with pytest.raises(DataError, match="it has 4 labels for 6 images"):
        load_dataset("mnist", "train", tmp_path)


class _RunsCode:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return open, (str(self.path), "w")


def test_a_pickle_that_runs_code_is_refused_and_does_not_run(cifar10_dir: Path) -> None:
    trace = cifar10_dir / "trace"
    batch = cifar10_dir / "cifar-10-batches-py" / "test_batch"
    batch.write_bytes(pickle.dumps({b"data": _RunsCode(trace), b"labels": []}, protocol=2))
    with pytest.raises(DataError, match=rf"{batch} is damaged .it asks to run .*open, which no official file does"):
        load_dataset("cifar10", "test", cifar10_dir)
    assert not trace.exists()


@pytest.mark.parametrize(
    "program",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"cnumpy\nload\n.",
        b"c_codecs\ndecode\n.",
        b"cnumpy\nndarray\n(I1\ntR.",
    ],
)
def test_names_beyond_the_official_ones_are_refused(cifar10_dir: Path, program: bytes) -> None:
    (cifar10_dir / "cifar-10-batches-py" / "test_batch").write_bytes(program)
    with pytest.raises(DataError, match=r"test_batch (asks to run|is damaged)"):
        load_dataset("cifar10", "test", cifar10_dir)


def test_a_pickle_cannot_change_the_reader_for_those_after_it(cifar10_dir: Path) -> None:
    path = cifar10_dir / "cifar-10-batches-py" / "test_batch"
    good = path.read_bytes()
    for name in (b"numpy\nndarray", b"numpy\ndtype", b"_codecs\nencode", b"numpy.core.multiarray\n_reconstruct"):
        path.write_bytes(b"c" + name + b"\n(N(V__new__\nNV__init__\nNdtb.")
        assert _outcome(cifar10_dir) == "refused"
    path.write_bytes(good)
    assert _outcome(cifar10_dir) == "read"
    assert len(load_dataset("cifar10", "train", cifar10_dir)) == 20


ROWS = np.zeros((2, 3072), dtype=np.uint8)


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        ([1, 2], "it holds a list, not a dictionary"),
        ({b"labels": [0, 1]}, "'data' is not an array"),
        ({b"data": [[0] * 3072] * 2, b"labels": [0, 1]}, "'data' is not an array"),
        ({b"data": ROWS[:, :100], b"labels": [0, 1]}, "'data' is not an array of rows of 3072"),
        ({b"data": ROWS.astype(np.int64), b"labels": [0, 1]}, "does not hold plain bytes"),
        ({b"data": ROWS}, "'labels' is not a list of 2 labels"),
        ({b"data": ROWS, b"labels": [0]}, "'labels' is not a list of 2 labels"),
        ({b"data": ROWS, b"labels": [0, 10]}, r"not a number in 0\.\.9"),
        ({b"data": ROWS, b"labels": [0, -1]}, r"not a number in 0\.\.9"),
        ({b"data": ROWS, b"labels": [0, "1"]}, r"not a number in 0\.\.9"),
    ],
)
def test_the_content_of_a_batch_is_checked(cifar10_dir: Path, batch: object, reason: str) -> None:
    path = cifar10_dir / "cifar-10-batches-py" / "test_batch"
    path.write_bytes(pickle.dumps(batch, protocol=2))
    with pytest.raises(DataError, match=rf"{path} is damaged \(.*{reason}.*`maxmahal data fetch cifar10`"):
        load_dataset("cifar10", "test", cifar10_dir)


def test_a_batch_damaged_anywhere_gives_a_sentence_or_an_honest_batch(cifar10_dir: Path) -> None:
    path = cifar10_dir / "cifar-10-batches-py" / "test_batch"
    good = path.read_bytes()
    structure = [*range(160), *range(len(good) - 60, len(good))]  # the rest are pixels
    for position in structure:
        for damaged in (good[:position], good[:position] + bytes([good[position] ^ 0x11]) + good[position + 1 :]):
            path.write_bytes(damaged)
            # A flipped bit may only change a file name or a label; a missing byte never passes.
            assert _outcome(cifar10_dir) in ({"refused", "read"} if len(damaged) == len(good) else {"refused"})


def _outcome(data_dir: Path) -> str:
    """Anything but a DataError escapes and fails the test."""
    try:
        return "read" if load_dataset("cifar10", "test", data_dir).image_shape == (3, 32, 32) else "wrong"
    except DataError:
        return "refused"


def test_unknown_names_and_splits_are_answered() -> None:
    with pytest.raises(DataError, match="Unknown data set 'cifar-10': did you mean 'cifar10'"):
        load_dataset("cifar-10")
    with pytest.raises(ArgumentError, match="split must be 'train' or 'test'; got 'val'"):
        load_dataset("digits", "val")
    assert set(dataset_names()) == {"digits", "mnist", "fashion-mnist", "cifar10", "cifar100"}


def test_the_data_folder_is_the_argument_then_the_variable_then_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cifar100_dir: Path
) -> None:
    monkeypatch.setenv("MAXMAHAL_DATA", str(tmp_path))
    assert resolve_data_dir("elsewhere") == Path("elsewhere")
    assert resolve_data_dir() == tmp_path
    assert len(load_dataset("cifar100")) == 3
    monkeypatch.delenv("MAXMAHAL_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert "maxmahal" in resolve_data_dir().name
