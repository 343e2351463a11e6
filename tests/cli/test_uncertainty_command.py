"""``maxmahal uncertainty`` as a user types it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from maxmahal.train import Settings, train_model
from maxmahal.uncertainty import read_record

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture
def runs(tmp_path: Path, tiny_settings: Callable[..., Settings]) -> dict[str, Path]:
    for name in ("mmc", "sce"):
        train_model(tiny_settings(f"digits-{name}", "train.seed=2"), tmp_path / name)
    return {name: tmp_path / name for name in ("mmc", "sce")}


def test_a_table_and_a_record(run: Any, runs: dict[str, Path], tiny_npz: Path, tmp_path: Path) -> None:
    out, copy = tmp_path / "record.json", tmp_path / "copy.npz"
    shutil.copyfile(tiny_npz, copy)
    done = run(
        *("uncertainty", runs["mmc"], f"second={runs['sce']}", "--ood", "inverted", "--ood", copy),
        *("--epsilon", "0.1", "--limit", "24", "--out", out),
    )
    assert done.code == 0, done.err
    assert "loss of the predicted class" in done.out
    assert "inverted" in done.out
    record = read_record(out)
    assert (record.epsilon, record.ood) == ("0.1", ("inverted", "copy"))
    assert [(model.name, model.loss, model.seed, model.samples) for model in record.models] == [
        ("mmc", "mmc", 2, 24),
        ("second", "sce", 2, 24),
    ]
    assert [score.score for score in record.models[0].scores] == ["loss", "gap", "softmax", "energy"]
    # The same images as out-of-distribution images: no score can separate them.
    assert record.models[0].scores[0].ood["copy"] == pytest.approx(0.5)
    run("uncertainty", runs["mmc"], runs["sce"], "--ood", "inverted", "--epsilon", "0.1", "--limit", "24", "--out", out)
    assert [model["name"] for model in json.loads(out.read_text())["models"]] == ["mmc", "sce"]


def test_without_a_wish_two_changes_are_shown(run: Any, runs: dict[str, Path]) -> None:
    done = run("uncertainty", runs["mmc"], "--limit", "12")
    assert done.code == 0, done.err
    assert "scrambled" in done.out
    assert "turned" in done.out


def test_mistakes_are_told(run: Any, runs: dict[str, Path], tmp_path: Path) -> None:
    run("uncertainty", runs["mmc"], "--epsilon", "8").assert_refused("epsilon must lie in (0, 1]")
    run("uncertainty", runs["mmc"], "--limit", "0").assert_refused("limit must be at least 1")
    run("uncertainty", runs["mmc"], runs["mmc"]).assert_refused("Two models are called 'mmc'", "NAME=TARGET")
    run("uncertainty", runs["mmc"], "--ood", "imnist").assert_refused("imnist")
    run("uncertainty", runs["mmc"], "--out", tmp_path / "x.csv").assert_refused("--out must end in .json")
    run("uncertainty", tmp_path / "nothing").assert_refused("There is no run folder")
