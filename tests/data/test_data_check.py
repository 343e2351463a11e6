"""check_dataset: what it verifies, and that each finding can turn bad."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import md5
from pathlib import Path

import numpy as np
import pytest

from maxmahal.data import CheckReport, check_dataset
from maxmahal.data.registry import SOURCES
from maxmahal.data.source import Download, OfficialFile
from maxmahal.errors import DataError


def bad_subjects(report: CheckReport) -> list[str]:
    return [row.subject for row in report.rows if not row.ok]


@pytest.fixture
def tiny_mnist(tmp_path: Path, write_mnist: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder whose six and four images are the official MNIST for one test."""
    write_mnist(tmp_path / "MNIST/raw")
    write_mnist(tmp_path / "unpacked", gzipped=False)
    downloads = tuple(
        _with_real_checksums(download, tmp_path / "MNIST/raw", tmp_path / "unpacked")
        for download in SOURCES["mnist"].downloads
    )
    counts = {"train": (1,) * 6 + (0,) * 4, "test": (1,) * 4 + (0,) * 6}
    monkeypatch.setitem(SOURCES, "mnist", replace(SOURCES["mnist"], downloads=downloads, class_counts=counts))
    return tmp_path


def _with_real_checksums(download: Download, packed: Path, unpacked: Path) -> Download:
    packed_md5 = md5((packed / download.name).read_bytes()).hexdigest()
    unpacked_md5 = md5((unpacked / download.name.removesuffix(".gz")).read_bytes()).hexdigest()
    return replace(download, files=(OfficialFile(download.files[0].places, packed_md5, unpacked_md5),))


def test_right_files_pass(tiny_mnist: Path) -> None:
    report = check_dataset("mnist", tiny_mnist)
    assert report.ok
    assert len(report.rows) == 4 + 2 * 2 + 1
    assert report.lines[4] == "ok   train: 6 images of 1x28x28 in 10 classes"


def test_unpacked_and_repacked_files_pass(tiny_mnist: Path, write_mnist: Callable[..., None]) -> None:
    write_mnist(tiny_mnist / "MNIST/raw")  # gzip stamps the time, so these differ as files
    path = tiny_mnist / "MNIST/raw/t10k-labels-idx1-ubyte.gz"
    path.write_bytes(path.read_bytes()[:4] + b"\1\2\3\4" + path.read_bytes()[8:])
    report = check_dataset("mnist", tiny_mnist)
    assert report.ok
    assert any("compressed again" in line for line in report.lines)
    for gzipped in (tiny_mnist / "MNIST/raw").iterdir():
        gzipped.unlink()
    write_mnist(tiny_mnist / "mnist", gzipped=False)
    report = check_dataset("mnist", tiny_mnist)
    assert report.ok
    assert report.rows[0].subject == "mnist/train-images-idx3-ubyte"


def test_a_changed_pixel_is_found(tiny_mnist: Path, write_mnist: Callable[..., None]) -> None:
    write_mnist(tiny_mnist / "mnist", gzipped=False)
    for gzipped in (tiny_mnist / "MNIST/raw").iterdir():
        gzipped.unlink()
    path = tiny_mnist / "mnist/t10k-images-idx3-ubyte"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    report = check_dataset("mnist", tiny_mnist)
    assert not report.ok
    assert bad_subjects(report) == ["mnist/t10k-images-idx3-ubyte"]
    assert any(line.startswith("BAD") and "maxmahal data fetch mnist" in line for line in report.lines)


def test_damaged_and_missing_files_become_rows(tiny_mnist: Path) -> None:
    folder = tiny_mnist / "MNIST/raw"
    (folder / "train-images-idx3-ubyte.gz").write_bytes(b"\x1f\x8b broken")
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    report = check_dataset("mnist", tiny_mnist)
    assert bad_subjects(report) == [
        "MNIST/raw/train-images-idx3-ubyte.gz",
        "MNIST/raw/t10k-labels-idx1-ubyte.gz",
        "train",
        "test",
    ]


def test_wrong_counts_and_balance_are_found(tiny_mnist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"train": (2, 0, 1, 1, 1, 1, 0, 0, 0, 0), "test": (1000,) * 10}
    monkeypatch.setitem(SOURCES, "mnist", replace(SOURCES["mnist"], class_counts=counts))
    assert bad_subjects(check_dataset("mnist", tiny_mnist)) == ["train balance", "test", "test balance"]


def test_fashion_mnist_unpacked_has_no_checksum_and_says_so(tmp_path: Path, write_mnist: Callable[..., None]) -> None:
    write_mnist(tmp_path / "FashionMNIST", gzipped=False)
    report = check_dataset("fashion-mnist", tmp_path)
    assert all(row.ok and "only counts and shapes are verified" in row.finding for row in report.rows[:4])
    assert not report.ok  # six images are not 60,000


def test_digits_pass_without_any_file(tmp_path: Path) -> None:
    assert check_dataset("digits", tmp_path).ok


def test_own_data_must_fill_every_class_and_agree(tmp_path: Path) -> None:
    images = np.zeros((3, 6, 5), dtype=np.uint8)
    path = tmp_path / "mine.npz"
    np.savez(path, images=images, labels=np.array([0, 1, 2]), test_images=images, test_labels=np.array([0, 0, 1]))
    assert check_dataset(str(path)).ok
    np.savez(
        path, images=images, labels=np.array([0, 2, 2]), test_images=images[:, 1:], test_labels=np.array([0, 0, 1])
    )
    report = check_dataset(str(path))
    assert bad_subjects(report) == ["train balance", "train and test"]
    assert "no image of 1" in report.rows[1].finding
    np.savez(path, images=images, labels=np.array([0, 1, 2]))
    assert bad_subjects(check_dataset(str(path))) == ["test"]


def test_an_unknown_name_is_an_error_not_a_row() -> None:
    with pytest.raises(DataError, match="did you mean 'mnist'"):
        check_dataset("mnits")
