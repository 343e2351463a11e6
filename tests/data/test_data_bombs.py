"""Small files that claim or unpack to gigabytes, and images that Pillow half supports: a sentence before the memory."""

import gzip
import io
import os
import resource
import struct
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from maxmahal.data import ImageData, load_dataset
from maxmahal.errors import DataError

ARRAYS = {name: np.zeros((6, 8, 8), np.uint8) for name in ("images", "test_images")} | {
    name: np.arange(6) % 3 for name in ("labels", "test_labels")
}
ARRAY = b"cnumpy.core.multiarray\n_reconstruct\n)R(K\x01%bcnumpy\ndtype\nU\x02u1\x85R\x89U\x01xtb."
PICKLES = {
    "nested tuples as a key": b"\x80\x02})" + b"\x85" * 200_000 + b"K\x01s.",
    "a bytearray of 4 GB": b"\x80\x05\x96" + struct.pack("<Q", 2**32 - 1) + b".",
    "a shape that is multiplied": ARRAY % (b"U\x01xJ" + struct.pack("<i", 2**31 - 1) + b"\x86"),
    "a negative shape": ARRAY % (b"J" + struct.pack("<i", -1) * 1 + b"J" + struct.pack("<i", -1) + b"\x86"),
    "numbers as keys that share a hash": b"\x80\x02}("
    + b"".join(b"\x8a\x0a" + (i * (2**61 - 1)).to_bytes(10, "little") + b"K\x01" for i in range(1, 20_000))
    + b"u.",
    "one text encoded again and again": b"\x80\x02]c_codecs\nencode\nq\x00X"
    + struct.pack("<I", 100_000) + b"x" * 100_000 + b"X\x06\x00\x00\x00latin1\x86q\x01Ra"
    + b"h\x00h\x01Ra" * 30_000 + b".",
}  # fmt: skip


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    """A quarter of a gigabyte more than now, and ten seconds."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (256 << 20), hard))
    started = time.monotonic()
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("content", PICKLES.values(), ids=PICKLES)
def test_pickles(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cifar-10-batches-py" / "batches.meta"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"batches\.meta is damaged"):
        load_dataset("cifar10", "test", tmp_path)


def test_a_gzip_file(tmp_path: Path) -> None:
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    with gzip.open(folder / "train-images-idx3-ubyte.gz", "wb", compresslevel=1) as stream:
        for _ in range(300):
            stream.write(bytes(1 << 20))
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(b"")
    with pytest.raises(DataError, match="it holds more than 64 MiB"):
        load_dataset("mnist", "train", tmp_path)


def write_npz(path: Path, claims: dict[str, tuple[str, tuple[int, ...]]], zeros: int = 0) -> None:
    """An honest npz, but for the arrays with a header of their own that are followed by so many MiB of zeros."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in ARRAYS.items():
            if name not in claims:
                stream = io.BytesIO()
                np.save(stream, array)
                archive.writestr(f"{name}.npy", stream.getvalue())
        for name, (descr, shape) in claims.items():
            stream = io.BytesIO()
            np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
            with archive.open(f"{name}.npy", "w") as member:
                member.write(stream.getvalue())
                for _ in range(zeros):
                    member.write(bytes(1 << 20))


def test_arrays_that_nobody_asked_for_are_not_unpacked(tmp_path: Path) -> None:
    write_npz(tmp_path / "a.npz", {"other": ("|u1", (300 << 20,))}, zeros=300)
    assert len(load_dataset(str(tmp_path / "a.npz"), "test")) == 6


@pytest.mark.parametrize(
    ("descr", "shape", "zeros", "reason"),
    [
        ("|u1", (300, 1024, 1024), 300, "would unpack"),
        ("|u1", (10**6, 1000, 1000), 0, "does not fit its size"),
        ("|u1", (-1, 1024, 1024), 1, "is damaged"),
        ("<U1000000000", (1,), 0, "is damaged"),
        ("|O", (6,), 0, "holds Python objects"),
    ],
)
def test_arrays_that_promise_too_much(
    descr: str, shape: tuple[int, ...], zeros: int, reason: str, tmp_path: Path
) -> None:
    write_npz(tmp_path / "a.npz", {"images": (descr, shape)}, zeros)
    with pytest.raises(DataError, match=rf"a\.npz.*{reason}"):
        load_dataset(str(tmp_path / "a.npz"))


def test_an_npz_packed_in_another_way_is_refused_and_one_in_fortran_order_is_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("images.npy", b"x" * 1000)
    with pytest.raises(DataError, match="packed in a way that numpy does not write"):
        load_dataset(str(tmp_path / "a.npz"))
    images = np.arange(6 * 8 * 8, dtype=np.uint8).reshape(6, 8, 8)
    np.savez(tmp_path / "b.npz", images=np.asfortranarray(images), labels=ARRAYS["labels"])
    assert np.array_equal(load_dataset(str(tmp_path / "b.npz")).images.numpy()[:, 0], images)


def write_png(path: Path, side: int, bits: int) -> None:
    """A black one in colour."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = zlib.compress((b"\0" + bytes(8 * 6)) * 8)
    header = struct.pack(">IIBBBBB", side, side, bits, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b""))


def sixteen_bits(path: Path) -> None:
    write_png(path, 8, 16)


def animated(path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), (shade, 0, 0)) for shade in (0, 90)]
    frames[0].save(path, save_all=True, append_images=frames[1:])


def huge(path: Path) -> None:
    write_png(path, 30_000, 8)


def truncated(path: Path) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (8, 8, 3), np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:-60])


@pytest.mark.parametrize("write", [sixteen_bits, animated, huge, truncated, os.mkfifo])
def test_images_that_are_half_supported(write: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "train" / "a").mkdir(parents=True)
    write(tmp_path / "train" / "a" / "0.png")
    with pytest.raises(DataError, match=r"0\.png"):
        load_dataset(str(tmp_path))


def test_a_class_name_that_no_file_can_hold_is_refused() -> None:
    with pytest.raises(DataError, match="is not a text that a file can hold"):
        ImageData.from_arrays("a", torch.zeros(1, 1, 2, 2, dtype=torch.uint8), torch.tensor([0]), ("\ud800",))
