"""Tiny files in the official formats, written as the publishers wrote them."""

import gzip
import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

FilesWriter = Callable[[Path], Path]


def idx_bytes(values: np.ndarray) -> bytes:
    header = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
    return header + values.astype(np.uint8).tobytes()


def write_pickle(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        pickle.dump(value, stream, protocol=2)


def python2_pickle(rows: np.ndarray, labels: list[int]) -> bytes:
    """A CIFAR batch spelled byte for byte as Python 2's cPickle and the numpy of 2009 spelled it."""
    raw = rows.astype(np.uint8).tobytes()
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x01(cnumpy\nndarray\nq\x02K\x00\x85U\x01btRq\x03(K\x01"
        + b"".join(b"M" + struct.pack("<H", size) for size in rows.shape)
        + b"\x86cnumpy\ndtype\nq\x04U\x02u1K\x00K\x01\x87Rq\x05"
        + b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        + b"T" + struct.pack("<i", len(raw)) + raw + b"tb"
    )  # fmt: skip
    numbers = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(U\x04data" + array + b"U\x06labels" + numbers + b"U\x0bbatch_labelU\x04test" + b"u."


@pytest.fixture
def random_images() -> Callable[..., np.ndarray]:
    def draw(*shape: int, seed: int = 0) -> np.ndarray:
        return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)

    return draw


@pytest.fixture
def cifar10_dir(tmp_path: Path, random_images: Callable[..., np.ndarray]) -> Path:
    """Five training batches of four images and a test batch of three."""
    folder = tmp_path / "cifar-10-batches-py"
    for batch in range(1, 6):
        labels = [batch, batch + 1, 0, 9]
        rows = random_images(4, 3072, seed=batch)
        write_pickle(folder / f"data_batch_{batch}", {b"data": rows, b"labels": labels})
    (folder / "test_batch").write_bytes(python2_pickle(random_images(3, 3072, seed=6), [3, 8, 8]))
    write_pickle(folder / "batches.meta", {b"label_names": [f"class {index}".encode() for index in range(10)]})
    return tmp_path


@pytest.fixture
def cifar100_dir(tmp_path: Path, random_images: Callable[..., np.ndarray]) -> Path:
    folder = tmp_path / "cifar-100-python"
    for seed, (name, fine, coarse) in enumerate([("train", [0, 99, 50], [4, 13, 16]), ("test", [7], [7])]):
        rows = random_images(len(fine), 3072, seed=seed)
        write_pickle(folder / name, {b"data": rows, b"fine_labels": fine, b"coarse_labels": coarse})
    fine_names = [f"fine {index}".encode() for index in range(100)]
    coarse_names = [f"coarse {index}".encode() for index in range(20)]
    write_pickle(folder / "meta", {b"fine_label_names": fine_names, b"coarse_label_names": coarse_names})
    return tmp_path


@pytest.fixture
def write_mnist(random_images: Callable[..., np.ndarray]) -> Callable[..., None]:
    def write(folder: Path, gzipped: bool = True) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for prefix, count, seed in (("train", 6, 0), ("t10k", 4, 1)):
            images = idx_bytes(random_images(count, 28, 28, seed=seed))
            labels = idx_bytes(np.arange(count) % 10)
            for name, content in ((f"{prefix}-images-idx3-ubyte", images), (f"{prefix}-labels-idx1-ubyte", labels)):
                if gzipped:
                    (folder / f"{name}.gz").write_bytes(gzip.compress(content))
                else:
                    (folder / name).write_bytes(content)

    return write
