"""A disk that is full or read-only: one sentence, nothing half written, and the work goes on when there is space."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from disturbed import Evaluations, assert_one_sentence

from maxmahal.records import read_evaluations
from processes import COMMAND_LINE, run

pytestmark = pytest.mark.soak
TRAIN = ["train", "digits-mmc", "--set", "train.epochs=2", "--resume", "--out"]


def fill(folder: Path, leave: int) -> Path:
    """A file that takes all the space but for ``leave`` bytes."""
    filler, space = folder / "filler", os.statvfs(folder)
    filler.write_bytes(bytes(space.f_bavail * space.f_bsize - leave))
    return filler


@pytest.mark.parametrize("leave", [0, 40_000, 120_000, 200_000])
def test_an_evaluation_on_a_full_disk(evaluations: Evaluations, mounted: Callable[..., Path], leave: int) -> None:
    disk = mounted("-t", "tmpfs", "-o", "size=4m", "tmpfs")
    filler = fill(disk, leave)
    assert_one_sentence(evaluations.run(disk / "out"), "Cannot write", "Free")
    filler.unlink()
    evaluations.assert_ends_as_if_undisturbed(disk / "out")


@pytest.mark.parametrize("leave", [0, 100_000, 400_000])
def test_a_training_on_a_full_disk(mounted: Callable[..., Path], leave: int) -> None:
    disk = mounted("-t", "tmpfs", "-o", "size=40m", "tmpfs")
    filler = fill(disk, leave)
    assert_one_sentence(run(COMMAND_LINE, *TRAIN, disk / "run"), "Cannot write", "No space left")
    assert not [*disk.rglob(".*tmp")]
    filler.unlink()
    done = run(COMMAND_LINE, *TRAIN, disk / "run")
    assert done.returncode == 0, done.stderr
    assert (disk / "run/result.json").exists()


def test_a_folder_that_cannot_be_written(evaluations: Evaluations, mounted: Callable[..., Path]) -> None:
    """It is read all the same."""
    disk = mounted("-t", "tmpfs", "tmpfs")
    assert evaluations.run(disk / "out").returncode == 0
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    (found,) = read_evaluations(disk / "out")
    assert found.finished
    assert_one_sentence(evaluations.run(disk / "new"), "Read-only file system")
    assert_one_sentence(run(COMMAND_LINE, *TRAIN, disk / "run"), "Read-only file system")
    page = ["report", str(disk / "out"), "--out"]
    assert_one_sentence(run(COMMAND_LINE, *page, disk / "page.html"), "Read-only file system")
    done = run(COMMAND_LINE, *page, disk.parent / "page.html")
    assert done.returncode == 0, done.stderr
