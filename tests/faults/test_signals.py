"""Processes that are stopped, several at one folder, a clock that jumps: the records are those of one left alone."""

import random
import signal
import time
from pathlib import Path

import pytest
from disturbed import Evaluations
from test_evaluate_kill import rows

from maxmahal.train.checkpoint import load_progress
from processes import COMMAND_LINE, Started, run

pytestmark = pytest.mark.soak
# The clock of the day goes back an hour and forth again at every look.
JUMPING = """
import itertools, time
real, hours = time.time, itertools.cycle([0, -3600, 86400 * 400])
time.time = lambda: real() + next(hours)
time.time_ns = lambda: int(time.time() * 1e9)
"""


def wait_for_chunks(out: Path, chunks: int, process: Started) -> None:
    process.stdout.readline()  # from its first line on there are tables
    while process.poll() is None and len(rows(out)["chunks"]) < chunks:
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_costs_the_chunk_under_way(evaluations: Evaluations, tmp_path: Path, number: int) -> None:
    process = evaluations.start(tmp_path / "out")
    wait_for_chunks(tmp_path / "out", 4, process)
    process.send_signal(number)
    process.communicate()
    assert process.returncode not in (0, None)
    before = len(rows(tmp_path / "out")["chunks"])
    assert 4 <= before < len(evaluations.undisturbed["chunks"])
    evaluations.assert_ends_as_if_undisturbed(tmp_path / "out")


def test_a_training_ended_by_a_signal_goes_on(tmp_path: Path) -> None:
    words = ["train", "digits-mmc", "--resume", "--set", "train.epochs=30", "--out", str(tmp_path / "run")]
    process = Started(COMMAND_LINE, *words)
    assert process.stdout.readline().startswith("epoch 1/30")
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode not in (0, None)
    assert 0 < load_progress(tmp_path / "run/state.safetensors").epoch < 30
    done = run(COMMAND_LINE, *words)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("count", [2, 3])
def test_processes_at_one_folder_of_which_one_is_killed_again_and_again(
    evaluations: Evaluations, tmp_path: Path, count: int
) -> None:
    moments, out, running = random.Random(count), tmp_path / "out", 0
    processes = [evaluations.start(out) for _ in range(count)]
    for kill in range(6):
        victim = processes.pop(0)
        wait_for_chunks(out, 4 * kill, victim)
        time.sleep(moments.uniform(0.0, 0.5))
        running += victim.poll() is None
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
        processes.append(evaluations.start(out))
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    assert running >= 2, "the kills must find an evaluation under way"
    evaluations.assert_ends_as_if_undisturbed(out)


def test_a_clock_that_jumps(evaluations: Evaluations, tmp_path: Path) -> None:
    done = evaluations.run(tmp_path / "out", JUMPING)
    assert done.returncode == 0, done.stderr
    evaluations.assert_ends_as_if_undisturbed(tmp_path / "out")
