"""Weights & Biases by its own library, offline; what it would send is read back from its file."""

import getpass
import json
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from commands import runner
from maxmahal.errors import ArgumentError
from maxmahal.evaluate.reporter import SilentReporter
from maxmahal.evaluate.reporter import logged as logged_evaluation
from maxmahal.imports import integration
from maxmahal.records.types import Finding
from maxmahal.train import Settings, train_model
from maxmahal.train.loop import Silent
from maxmahal.train.tensorboard import logged


@pytest.fixture
def wandb(
    library: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModuleType]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    found = library("wandb")
    yield found
    found.teardown()  # it reads its folder once per process


def records(content: bytes) -> Iterator[bytes]:
    """The records of W&B's file: a header of 7 bytes, then blocks of 32 KiB in the log format of LevelDB."""
    place, record = 7, b""
    while place + 7 <= len(content):
        if (left := -place % 32768) and left < 7:  # the end of a block is filled with zeros
            place += left
        _, length, kind = struct.unpack_from("<IHB", content, place)
        record += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # a whole record, or its last part
            yield record
            record = b""


def sent(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any], bytes]:
    """The rows of the only run, its summary, and its whole file."""
    import wandb
    from wandb.proto import wandb_internal_pb2

    wandb.teardown()  # its own process writes the file
    (file,) = folder.glob("wandb/offline-run-*/*.wandb")
    rows: list[dict[str, Any]] = []
    summary: dict[str, Any] = {}
    for data in records(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        items = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        rows += [{key: value for key, value in items.items() if not key.startswith("_")}] if items else []
        summary |= {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.summary.update}
    return rows, summary, file.read_bytes()


def test_training_is_logged_by_epoch(wandb: ModuleType, tiny_settings: Callable[..., Settings], tmp_path: Path) -> None:
    settings = tiny_settings("digits-mmc", "train.epochs=2")
    with logged(Silent(), None, "stripes") as reporter:
        train_model(settings, tmp_path / "run", reporter=reporter)
    rows, _, content = sent(tmp_path)
    epochs = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    losses = [row for row in rows if "train/train_loss" in row]
    assert [row["train/train_loss"] for row in losses] == [epoch["train_loss"] for epoch in epochs]
    assert [row["train/train_loss (step)"] for row in losses] == [1, 2]
    assert b"stripes" in content


def test_evaluations_of_two_models_are_two_curves(wandb: ModuleType, tmp_path: Path) -> None:
    with logged_evaluation(SilentReporter(), None, "stripes") as reporter:
        for name in ("one", "two"):
            reporter.begin(name, 20)
            reporter.stage("PGD", 20, 0)
            reporter.chunk(10, 0.5)
            reporter.chunk(10, 0.25)
        reporter.finding(Finding("zero-gradients", "Zero gradients", True, "Half are zero.", ""))
    rows, summary, _ = sent(tmp_path)
    for name in ("one", "two"):
        curve = f"{name}/robust accuracy so far"
        points = [(row[f"{curve} (step)"], row[curve]) for row in rows if curve in row]
        assert points == [(10, 0.5), (20, 0.25)]
    assert summary["two/zero-gradients"] == "FLAG: Half are zero."


def test_the_files_say_nothing_about_the_user(wandb: ModuleType, tmp_path: Path) -> None:
    log = integration("wandb").WandbLog("stripes")
    log.add_scalar("train/loss", 1.0, 1)
    log.close()
    wandb.teardown()
    secrets = (socket.gethostname(), f"/{getpass.getuser()}/", str(Path.cwd()))
    for file in (each for each in tmp_path.rglob("*") if each.is_file() and each.suffix != ".log"):
        content = file.read_bytes()
        assert not [secret for secret in secrets if secret.encode() in content], file
    assert not list(tmp_path.rglob("requirements.txt"))


def test_the_command_line_takes_a_project(
    wandb: ModuleType,
    tiny_npz: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    small = ["train.epochs=1", "model.feature_dim=8", "train.batch_size=24", f"data.source={tiny_npz}"]
    sets = [word for each in small for word in ("--set", each)]
    run = runner(monkeypatch, capfd)
    assert run("train", "digits-mmc", "--out", "run", "--wandb", "stripes", "--quiet", *sets).code == 0
    assert any("train/train_loss" in row for row in sent(tmp_path)[0])


def test_a_refusal_is_one_sentence(wandb: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise wandb.Error("no API key")

    monkeypatch.setattr(wandb, "init", refuse)
    with pytest.raises(ArgumentError, match=r"no API key.*WANDB_MODE=offline"):
        integration("wandb").WandbLog("stripes")
