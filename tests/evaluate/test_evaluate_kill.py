"""An evaluation killed with SIGKILL at random moments ends with the same records as one left alone."""

import math
import random
import signal
import sqlite3
import sys
import time
from pathlib import Path

import pytest

from maxmahal.records import read_evaluations
from maxmahal.records.schema import FILE
from maxmahal.train import load_settings, train_model
from processes import COMMAND_LINE, Started, run

# What makes a record: who, under which attack, with what outcome, after how many steps. Seconds and devices may differ.
IDENTITY = (
    "evaluation, stage, sample, label, clean_prediction, prediction, right_before, broken, right_share, "
    "iterations, forward, backward, queries"
)
SUITE = """
version = 1
about = "small, with a stage of every kind that keeps state"
epsilon = "0.15"
chunk = {chunk}
diagnose = {diagnose}
mend = true

[[stage]]
name = "apgd"
attack = "apgd"
objective = "cross-entropy"
steps = {steps}

[[stage]]
name = "pgd"
attack = "pgd"
objective = "margin"
steps = {steps}
restarts = 3

[[stage]]
name = "square"
attack = "square"
queries = {queries}
"""


def command(model: Path, suite: Path, out: Path) -> list[str]:
    return ["evaluate", f"model={model}", "--suite", str(suite), "--out", str(out), "--limit", "300"]


def rows(out: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every row that counts, of every table."""
    connection = sqlite3.connect(out / FILE)
    try:
        return {
            "records": connection.execute(f"SELECT {IDENTITY} FROM records ORDER BY 1, 2, 3").fetchall(),
            "stages": connection.execute("SELECT * FROM stages ORDER BY 1, 2").fetchall(),
            "findings": connection.execute("SELECT * FROM findings ORDER BY 1, 2").fetchall(),
            "chunks": connection.execute("SELECT evaluation, stage, number FROM chunks ORDER BY 1, 2, 3").fetchall(),
            "pictures": connection.execute("SELECT * FROM pictures ORDER BY 1, 2, 3").fetchall(),
            "points": connection.execute("SELECT * FROM points ORDER BY 1, 2, 3").fetchall(),
        }
    finally:
        connection.close()


def kill_at_random(arguments: list[str], out: Path, chunks: int, moments: random.Random, longest: float) -> bool:
    """Start, wait for the first line and so many chunks, let it run on for a random while, kill."""
    process = Started(COMMAND_LINE, *arguments)
    process.stdout.readline()
    while process.poll() is None and len(rows(out)["chunks"]) < chunks:
        time.sleep(0.01)
    time.sleep(moments.uniform(0.0, longest))
    was_running = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return was_running


def check(tmp_path: Path, kills: int, suite: str, longest: float, chunks: int = 0) -> tuple[float, float]:
    model, settings = tmp_path / "model", tmp_path / "suite.toml"
    train_model(load_settings("digits-sce", ["train.epochs=4"]), model)
    settings.write_text(suite)
    whole, killed = command(model, settings, tmp_path / "whole"), command(model, settings, tmp_path / "killed")
    started = time.perf_counter()
    assert run(COMMAND_LINE, *whole).returncode == 0
    alone = time.perf_counter() - started
    moments, recorded, found_running = random.Random(3), [], 0
    started = time.perf_counter()
    for _ in range(kills):
        found_running += kill_at_random(killed, tmp_path / "killed", chunks, moments, longest)
        recorded.append(len(rows(tmp_path / "killed")["chunks"]))
    assert run(COMMAND_LINE, *killed).returncode == 0
    with_kills = time.perf_counter() - started
    expected, got = rows(tmp_path / "whole"), rows(tmp_path / "killed")
    assert found_running >= kills - 1, "the kills must find an evaluation under way"
    assert recorded == sorted(recorded)
    assert recorded[0] < len(expected["chunks"])
    assert expected["records"]
    for table in expected:
        assert got[table] == expected[table], table
    (evaluation,) = read_evaluations(tmp_path / "killed")
    assert evaluation.finished
    return alone, with_kills


def test_a_kill(tmp_path: Path) -> None:
    """In the middle of the first attack's chunks; those of the clean images come before."""
    suite = SUITE.format(chunk=40, diagnose="false", steps=20, queries=300)
    check(tmp_path, 1, suite, longest=0.2, chunks=math.ceil(300 / 40) + 1)


@pytest.mark.soak
def test_thirty_kills(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite = SUITE.format(chunk=10, diagnose="true", steps=100, queries=5000)
    alone, with_kills = check(tmp_path, 30, suite, longest=3.0)
    with capsys.disabled():
        sys.stdout.write(f"\n30 kills: {with_kills:.0f} s beside {alone:.0f} s undisturbed\n")


def test_ctrl_c_is_answered_in_one_sentence(tmp_path: Path) -> None:
    model, suite = tmp_path / "model", tmp_path / "suite.toml"
    train_model(load_settings("digits-sce", ["train.epochs=1"]), model)
    suite.write_text(SUITE.format(chunk=10, diagnose="false", steps=100, queries=5000))
    process = Started(COMMAND_LINE, *command(model, suite, tmp_path / "out"))
    process.stdout.readline()
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert errors.count("\n") == 1
    assert "same command" in errors
