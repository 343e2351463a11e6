"""A run killed with SIGKILL at random moments ends with the same weights, bit for bit, as one left alone."""

import random
import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from maxmahal.train.checkpoint import load_progress
from processes import COMMAND_LINE, Started, run


def command(out: Path, *overrides: str) -> list[str]:
    options = [word for override in overrides for word in ("--set", override)]
    return ["train", "digits-mmc", "--out", str(out), "--resume", *options]


def run_whole(out: Path, *overrides: str) -> None:
    done = run(COMMAND_LINE, *command(out, *overrides))
    assert done.returncode == 0, done.stderr


def run_with_kills(out: Path, overrides: list[str], kills: int, seed: int) -> list[int]:
    """Kill at random moments after at least one more epoch, start again; returns the epoch each kill left saved."""
    moments, saved = random.Random(seed), []
    for _ in range(kills):
        process = Started(COMMAND_LINE, *command(out, *overrides))
        while process.poll() is None and "epoch" not in process.stdout.readline():
            pass
        time.sleep(moments.uniform(0.0, 1.0))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        saved.append(load_progress(out / "state.safetensors").epoch)
    run_whole(out, *overrides)
    return saved


def check(tmp_path: Path, overrides: list[str], kills: int, epochs: int) -> None:
    run_whole(tmp_path / "whole", *overrides)
    saved = run_with_kills(tmp_path / "killed", overrides, kills, seed=1)
    assert 0 < saved[0] < epochs, "the first kill must find a run under way"
    assert saved == sorted(saved)
    for name in ("last.safetensors", "state.safetensors"):
        whole, killed = load_file(tmp_path / "whole" / name), load_file(tmp_path / "killed" / name)
        assert whole.keys() == killed.keys()
        assert all(torch.equal(whole[key], killed[key]) for key in whole)
    assert {path.name for path in (tmp_path / "killed").iterdir()} == {
        path.name for path in (tmp_path / "whole").iterdir()
    }


def test_two_kills(tmp_path: Path) -> None:
    check(tmp_path, ["train.epochs=20"], kills=2, epochs=20)


@pytest.mark.soak
def test_five_kills_of_the_whole_preset(tmp_path: Path) -> None:
    check(tmp_path, [], kills=5, epochs=30)


def test_ctrl_c_is_answered_in_one_sentence_and_the_run_goes_on(tmp_path: Path) -> None:
    process = Started(COMMAND_LINE, *command(tmp_path / "run", "train.epochs=200"))
    assert process.stdout.readline().startswith("epoch 1/200")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert errors.count("\n") == 1
    assert "--resume" in errors
    assert 0 < load_progress(tmp_path / "run" / "state.safetensors").epoch < 200


def test_a_file_size_limit_is_told_and_the_run_goes_on_without_it(tmp_path: Path) -> None:
    """The operating system really refuses a write: the state grows past the limit of the process."""
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)); "
    done = run(limited + COMMAND_LINE, *command(tmp_path / "run", "train.epochs=1"))
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("maxmahal: Cannot write ")
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "run").glob(".*tmp"))
    run_whole(tmp_path / "run", "train.epochs=1")
