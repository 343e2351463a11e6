"""A run killed with SIGKILL at random moments ends with the same weights, bit for bit, as one left alone."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file


def command(out: Path, *overrides: str) -> list[str]:
    options = [word for override in overrides for word in ("--set", override)]
    return [sys.executable, "-m", "maxmahal", "train", "digits-mmc", "--out", str(out), "--resume", *options]


def run_with_kills(out: Path, overrides: list[str], kills: int, seed: int, longest: float) -> int:
    """Start again after each kill; returns how many kills hit a living process."""
    moments, hits = random.Random(seed), 0
    for _ in range(kills):
        process = subprocess.Popen(command(out, *overrides), stdout=subprocess.DEVNULL)
        time.sleep(moments.uniform(1.5, longest))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            hits += 1
        process.wait()
    subprocess.run(command(out, *overrides), stdout=subprocess.DEVNULL, check=True)
    return hits


def check(tmp_path: Path, overrides: list[str], kills: int, longest: float) -> None:
    started = time.monotonic()
    subprocess.run(command(tmp_path / "whole", *overrides), stdout=subprocess.DEVNULL, check=True)
    longest = min(longest, 0.7 * (time.monotonic() - started))
    hits = run_with_kills(tmp_path / "killed", overrides, kills, seed=1, longest=max(longest, 2.0))
    assert hits >= kills // 2, "the run was too short to be killed"
    for name in ("last.safetensors", "state.safetensors"):
        whole, killed = load_file(tmp_path / "whole" / name), load_file(tmp_path / "killed" / name)
        assert whole.keys() == killed.keys()
        assert all(torch.equal(whole[key], killed[key]) for key in whole)
    assert {path.name for path in (tmp_path / "killed").iterdir()} == {
        path.name for path in (tmp_path / "whole").iterdir()
    }


def test_two_kills(tmp_path: Path) -> None:
    check(tmp_path, ["train.epochs=12"], kills=2, longest=6.0)


@pytest.mark.soak
def test_five_kills_of_the_whole_preset(tmp_path: Path) -> None:
    check(tmp_path, [], kills=5, longest=12.0)


def test_a_file_size_limit_is_told_and_the_run_goes_on_without_it(tmp_path: Path) -> None:
    """The operating system really refuses a write: the state grows past the limit of the process."""
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)); "
        "from maxmahal.cli import main; main()"
    )
    arguments = command(tmp_path / "run", "train.epochs=1")[3:]
    done = subprocess.run([sys.executable, "-c", limited, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("maxmahal: Cannot write ")
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "run").glob(".*tmp"))
    subprocess.run(command(tmp_path / "run", "train.epochs=1"), stdout=subprocess.DEVNULL, check=True)
