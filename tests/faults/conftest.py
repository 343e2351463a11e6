"""One trained model with its undisturbed records, and disks of a size of our own."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from disturbed import Evaluations
from test_evaluate_kill import SUITE, rows

from maxmahal.train import load_settings, train_model


@pytest.fixture(scope="session")
def evaluations(tmp_path_factory: pytest.TempPathFactory) -> Evaluations:
    folder = tmp_path_factory.mktemp("faults")
    train_model(load_settings("digits-sce", ["train.epochs=3"]), folder / "model")
    (folder / "suite.toml").write_text(SUITE.format(chunk=10, diagnose="false", steps=40, queries=600))
    alone = Evaluations(folder, {})
    assert alone.run(folder / "alone").returncode == 0
    return Evaluations(folder, rows(folder / "alone"))


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """A folder that is a disk of its own, by the options of ``mount``."""
    folders: list[Path] = []

    def mount(*options: str, name: str = "disk") -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        words = ["mount", *options, str(folder)]
        if shutil.which("mount") is None or subprocess.run(words, capture_output=True).returncode:
            pytest.skip("mounting a disk needs root")
        folders.append(folder)
        return folder

    yield mount
    for folder in reversed(folders):
        subprocess.run(["umount", str(folder)], check=True)
