"""A reader's machine: an empty folder, a small model with images, and small data sets under the official names."""

import gzip
import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from blocks import ROOT

from commands import Outcome, runner
from maxmahal import MMC, Classifier, max_mahalanobis_centers
from maxmahal.models import SmallCNN

MODULE = '''
"""What a reader would have: a network, its factory, and a loss."""

import torch
from torch import nn

from maxmahal.losses import MMC


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).eval()


class MyLoss(MMC):
    """A loss of the reader's own."""
'''


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The reader's folder, which is the current one."""
    monkeypatch.setenv("MAXMAHAL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.delenv("MAXMAHAL_ZOO", raising=False)
    small_data(tmp_path / "data")
    folder = tmp_path / "reader"
    folder.mkdir()
    (folder / "mymodule.py").write_text(MODULE, encoding="utf-8")
    (folder / "mypackage").mkdir()
    (folder / "mypackage" / "__init__.py").touch()
    (folder / "mypackage" / "losses.py").write_text(MODULE, encoding="utf-8")
    images, labels = small_images()
    np.savez(folder / "mine.npz", test_images=images.numpy(), test_labels=labels.numpy())
    (folder / "paper").symlink_to(ROOT / "paper")
    monkeypatch.chdir(folder)
    return folder


def small_images() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(256, (10, 1, 8, 8), generator=torch.Generator().manual_seed(0)) / 255, torch.arange(10)


@pytest.fixture
def names() -> dict[str, object]:
    """The names that a snippet may use without defining them: ``model``, ``images`` and ``labels``."""
    torch.manual_seed(0)
    model = Classifier(SmallCNN(image_size=(8, 8), feature_dim=8), MMC(max_mahalanobis_centers(10, 8))).eval()
    images, labels = small_images()
    return {"__name__": "__main__", "model": model, "images": images, "labels": labels}


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    return runner(monkeypatch, capfd)


def small_data(folder: Path) -> None:
    """CIFAR-10, CIFAR-100 and MNIST in their official formats, with a few images each."""
    draw = np.random.default_rng(0)
    cifar10, cifar100 = folder / "cifar-10-batches-py", folder / "cifar-100-python"
    names = [*(f"data_batch_{batch}" for batch in range(1, 6)), "test_batch"]
    batches = {name: {b"data": draw.integers(0, 256, (10, 3072), np.uint8), b"labels": [*range(10)]} for name in names}
    _pickled(cifar10, {**batches, "batches.meta": {b"label_names": [b"%d" % label for label in range(10)]}})
    hundred = {b"data": draw.integers(0, 256, (100, 3072), np.uint8), b"fine_labels": [*range(100)]}
    hundred[b"coarse_labels"] = [label % 20 for label in range(100)]
    meta = {
        b"fine_label_names": [b"f%d" % label for label in range(100)],
        b"coarse_label_names": [b"c%d" % label for label in range(20)],
    }
    _pickled(cifar100, {"train": hundred, "test": hundred, "meta": meta})
    (folder / "mnist").mkdir(parents=True)
    for prefix in ("train", "t10k"):
        for kind, values in (("images-idx3", draw.integers(0, 256, (20, 28, 28))), ("labels-idx1", np.arange(20) % 10)):
            header = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
            (folder / "mnist" / f"{prefix}-{kind}-ubyte.gz").write_bytes(
                gzip.compress(header + values.astype(np.uint8).tobytes())
            )


def _pickled(folder: Path, files: dict[str, object]) -> None:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(pickle.dumps(content, protocol=2))
