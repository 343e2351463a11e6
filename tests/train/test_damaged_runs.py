"""Run folders that a crash or a stranger left: torn metrics, odd metadata, absurd numbers, paths and host names."""

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from maxmahal.data import load_dataset
from maxmahal.errors import CheckpointError, DataError, DataNotice, MaxmahalError, SettingsError
from maxmahal.evaluate import evaluate_model, read_evaluations
from maxmahal.evaluate.evaluated_model import load_target
from maxmahal.records.schema import FILE
from maxmahal.reproduce.states import training_state
from maxmahal.train import RunFolder, Settings, load_model, load_settings, train_model
from maxmahal.train.checkpoint import read_tensors, save_tensors
from maxmahal.train.presets import resumed_settings
from maxmahal.train.tensorboard import open_log

pytestmark = pytest.mark.usefixtures("unchecked")
SMALL = ("train.epochs=2", "train.batch_size=10", "model.feature_dim=8")
INFINITE, NAN = float("inf"), float("nan")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run and its data, for copying."""
    folder = tmp_path_factory.mktemp("whole")
    labels = np.arange(30) % 3
    images = np.zeros((30, 8, 8), np.uint8) + 80 * labels[:, None, None].astype(np.uint8)
    np.savez(folder / "own.npz", images=images, labels=labels, test_images=images, test_labels=labels)
    train_model(load_settings("digits-mmc", [*SMALL, f"data.source={folder / 'own.npz'}"]), folder / "run")
    return folder


@pytest.fixture
def settings(whole: Path) -> Settings:
    return load_settings("digits-mmc", [*SMALL, f"data.source={whole / 'own.npz'}"])


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole / "run", tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("torn", ['{"epoch": 3, "tr', "\0\0\0\0", "[" * 100_000, '{"epoch": NaN}'])
def test_a_torn_last_line_is_left_out_with_a_word_and_dropped_on_resuming(
    torn: str, run: Path, settings: Settings
) -> None:
    metrics = run / "metrics.jsonl"
    whole = metrics.read_text()
    metrics.write_text(whole + torn)
    with pytest.warns(DataNotice, match=r"metrics\.jsonl: its last line is incomplete"):
        assert len(load_target(str(run)).training) == 2
    (run / "result.json").unlink()
    with pytest.warns(DataNotice):
        assert training_state(run, settings).detail == "epoch 2 of 2"
    train_model(settings, run, resume=True)
    assert metrics.read_text() == whole


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"epoch": "1"}', '{"epoch": 0}', '{"epoch": 1, "train_seconds": 1e999}', "\udcff"]
)
def test_damage_elsewhere_is_a_sentence(line: str, run: Path, settings: Settings) -> None:
    metrics = run / "metrics.jsonl"
    metrics.write_bytes(f"{line}\n{metrics.read_text()}".encode(errors="surrogateescape"))
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl is damaged \(line 1: "):
        load_target(str(run))
    with pytest.raises(CheckpointError, match="is damaged"):
        train_model(settings, run, resume=True)


def test_metrics_that_are_no_file_are_a_sentence(run: Path) -> None:
    (run / "metrics.jsonl").unlink()
    os.mkfifo(run / "metrics.jsonl")
    with pytest.raises(CheckpointError, match="a pipe, a device or a socket"):
        load_target(str(run))


def forge(path: Path, entry: str, change: Callable[[Any], None]) -> None:
    """Change the metadata of a file, with the right fingerprint: anybody can compute it."""
    tensors, metadata = read_tensors(path)
    content = json.loads(metadata[entry])
    change(content)
    save_tensors(path, tensors, {**metadata, entry: json.dumps(content)})


@pytest.mark.parametrize(
    "changes",
    [
        *({"image_shape": shape} for shape in ([INFINITE, 8, 8], [NAN, 8, 8], ["1", 8, 8], [1, 8], 5, [1, 8, 10**30])),
        *({"image_shape": shape} for shape in ([10**15, 8, 8], [True, 8, 8], [0, 8, 8])),
        *({"class_names": names} for names in ("abc", [1, 2, 3], None, ["\ud800", "b", "c"])),
        *({"epoch": epoch} for epoch in ("1", INFINITE, [])),
        *({"settings": value} for value in (5, None, {"train": {"lr": 1e300}}, {"model": {"feature_dim": 10**17}})),
    ],
    ids=str,
)
def test_metadata_of_wrong_types_is_a_sentence(changes: dict[str, Any], run: Path) -> None:
    forge(run / "last.safetensors", "model", lambda card: card.update(changes))
    with pytest.raises(CheckpointError, match=r"last\.safetensors"):
        load_model(run)


def test_metadata_nested_deep_is_a_sentence(run: Path) -> None:
    for file, entry in (("last.safetensors", "model"), ("state.safetensors", "progress")):
        tensors, metadata = read_tensors(run / file)
        save_tensors(run / file, tensors, {**metadata, entry: "[" * 100_000})
    with pytest.raises(CheckpointError, match="damaged metadata"):
        load_model(run)


@pytest.mark.parametrize(
    "changes",
    [
        *({"epoch": INFINITE}, {"epoch": "1"}, {"best_score": "x"}, {"threads": []}, {"settings": 5}, {"more": 1}),
        *({"settings": "[" * 100_000}, {"settings": "[]"}, {"settings": '{"train": {"epochs": "9"}}'}),
    ],
    ids=lambda changes: str(changes)[:40],
)
def test_a_state_of_wrong_types_is_a_sentence(changes: dict[str, Any], run: Path, settings: Settings) -> None:
    forge(run / "state.safetensors", "progress", lambda progress: progress.update(changes))
    with pytest.raises(CheckpointError, match=r"state\.safetensors has damaged metadata"):
        train_model(settings, run, resume=True)


def test_a_run_of_an_earlier_version_with_settings_that_are_gone_is_read_and_resumed(
    run: Path, settings: Settings, tmp_path: Path
) -> None:
    retired = {"own_kernels": 64, "tune": True}

    def in_state(progress: Any) -> None:
        begun = json.loads(progress["settings"])
        begun["cuda"].update(retired)
        progress["settings"] = json.dumps(begun)

    forge(run / "last.safetensors", "model", lambda card: card["settings"]["cuda"].update(retired))
    forge(run / "state.safetensors", "progress", in_state)
    toml = (run / "settings.toml").read_text()
    (run / "settings.toml").write_text(toml.replace("[cuda]\n", "[cuda]\nown_kernels = 64\ntune = true\n"))
    assert load_model(run).card.settings == settings
    assert load_settings(run / "settings.toml") == settings
    assert training_state(run, settings).share == 1
    (run / "result.json").unlink()
    overrides = [*SMALL, f"data.source={settings.data.source}"]
    assert resumed_settings("digits-mmc", overrides, RunFolder(run)) == settings
    train_model(settings, run, resume=True)
    # What a user writes is another matter.
    shutil.copy(run / "settings.toml", tmp_path / "mine.toml")
    for preset, changes in ((tmp_path / "mine.toml", []), (run / "settings.toml", ["cuda.tune=true"])):
        with pytest.raises(SettingsError, match=r"'cuda\.(own_kernels|tune)' is not a setting"):
            load_settings(preset, changes)


def test_a_momentum_of_another_shape_is_a_sentence(run: Path, settings: Settings) -> None:
    tensors, metadata = read_tensors(run / "state.safetensors")
    name = next(name for name in tensors if name.startswith("momentum."))
    save_tensors(run / "state.safetensors", tensors | {name: torch.ones(())}, metadata)
    with pytest.raises(CheckpointError, match="damaged momentum"):
        train_model(settings, run, resume=True)


@pytest.mark.parametrize(
    "override",
    [f"train.{name}={value}" for name in ("lr", "weight_decay", "factor") for value in ("1e300", "-1", "inf", "nan")]
    + ["loss.scale=1e300", "model.feature_dim=100000000000000000000", "train.epochs=" + "[" * 5000],
    ids=lambda text: text[:40],
)
def test_absurd_settings_are_a_sentence(override: str) -> None:
    with pytest.raises(SettingsError):
        load_settings("digits-mmc", [override])


def test_nothing_that_is_saved_tells_who_the_user_is(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home folder becomes ``~``, in which the data are found again; records have no absolute path at all."""
    home = tmp_path / "alices-home"
    home.mkdir()
    shutil.copy(whole / "own.npz", home)
    monkeypatch.setenv("HOME", str(home))
    train_model(load_settings("digits-mmc", [f"data.source={home}/own.npz", *SMALL]), home / "run")
    evaluate_model(home / "run", out=home / "eval", suite="quick", limit=4)
    evaluate_model(home / "run", out=home / "eval", suite="quick", limit=5, data=str(whole / "own.npz"))
    first, second = read_evaluations(home / "eval")
    assert first.data == "~/own.npz"
    assert second.data == "own.npz"
    assert "~/run" in first.environment["command"]
    for path in [*(home / "run").iterdir(), home / "eval" / FILE]:
        assert b"alices-home" not in path.read_bytes(), path
    assert str(whole).encode() not in (home / "eval" / FILE).read_bytes()


def test_tensorboard_files_do_not_name_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.setattr(socket, "gethostname", lambda: "alices-laptop")
    log = open_log(tmp_path)
    log.add_scalar("a", 1.0, 1)
    log.close()
    (file,) = tmp_path.iterdir()
    assert "alices-laptop" not in file.name
    assert b"alices-laptop" not in file.read_bytes()
    assert socket.gethostname() == "alices-laptop"


def test_sample_ids_given_twice_are_called_what_they_are(run: Path, whole: Path, tmp_path: Path) -> None:
    data = load_dataset(str(whole / "own.npz"), "test")
    twice = data.select(torch.tensor([0, 1, 1, 2]))
    with pytest.raises(DataError, match="2 images have the sample id 1; number the samples without repetition"):
        evaluate_model(run, out=tmp_path / "eval", suite="quick", data=twice)
    assert not (tmp_path / "eval" / FILE).exists()


def test_an_epsilon_of_many_digits_is_a_sentence(run: Path, tmp_path: Path) -> None:
    with pytest.raises(MaxmahalError, match="epsilon must be a number or a fraction"):
        evaluate_model(run, out=tmp_path / "eval", suite="quick", epsilon="1e999999999")
