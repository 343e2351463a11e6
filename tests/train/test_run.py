"""Runs: they learn, they are deterministic, and resuming leaves no trace."""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from maxmahal.errors import ArgumentError, CheckpointError, DataError, SettingsError
from maxmahal.models import accuracy
from maxmahal.settings import first_difference
from maxmahal.train import RunFolder, Settings, load_card, load_model, load_settings, run, train_model
from maxmahal.train.loop import Silent, TrainingDivergedError, batches
from maxmahal.train.presets import resumed_settings
from maxmahal.train.splits import load_splits

Make = Callable[..., Settings]
METHODS = ["digits-sce", "digits-mmc", "digits-center", "digits-mmlda", "digits-lgm", "digits-emc", "digits-mmc-rand"]
METHODS += ["digits-cosface", "digits-arcface", "digits-at-mmc", "digits-at-sce", "digits-trades-mmc"]
METHODS += ["digits-trades-sce", "digits-pairing-mmc"]


class StopAfter(Silent):
    """Raises in the middle of an epoch, as a kill would end it."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def step(self) -> None:
        self.steps -= 1
        if self.steps == 0:
            raise KeyboardInterrupt


class Notes(Silent):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


def narrow(shape: tuple[int, int, int], dim: int) -> nn.Module:
    """One value before the last layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 1), nn.ReLU(), nn.Linear(1, dim))


def weights(path: Path) -> dict[str, torch.Tensor]:
    return load_file(path)


def assert_same(first: Path, second: Path) -> None:
    left, right = weights(first), weights(second)
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert torch.equal(tensor, right[name]), name


@pytest.mark.parametrize("preset", METHODS)
def test_every_loss_and_method_learns_the_stripes(preset: str, tiny_settings: Make, tmp_path: Path) -> None:
    settings = tiny_settings(preset, "train.epochs=8", "train.warmup=0", "data.augment=none")
    result = train_model(settings, tmp_path / "run")
    assert result["last"]["test_accuracy"] > 0.9
    losses = [line["train_loss"] for line in RunFolder(tmp_path / "run").read_metrics()]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("preset", ["digits-mmc", "digits-center", "digits-at-sce"])
@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_an_interrupted_run_resumes_to_the_same_bits(
    preset: str, ema: float, tiny_settings: Make, tmp_path: Path
) -> None:
    settings = tiny_settings(preset, f"train.ema={ema}")
    train_model(settings, tmp_path / "whole")
    for steps in (2, 3, 6):
        with pytest.raises(KeyboardInterrupt):
            train_model(settings, tmp_path / "parts", resume=True, reporter=StopAfter(steps))
    train_model(settings, tmp_path / "parts", resume=True)
    assert_same(tmp_path / "whole/last.safetensors", tmp_path / "parts/last.safetensors")
    assert_same(tmp_path / "whole/state.safetensors", tmp_path / "parts/state.safetensors")
    timeless = [
        [
            {key: value for key, value in line.items() if key != "train_seconds"}
            for line in RunFolder(path).read_metrics()
        ]
        for path in (tmp_path / "whole", tmp_path / "parts")
    ]
    assert timeless[0] == timeless[1]


def test_a_torn_or_unsaved_metrics_line_is_measured_again(tiny_settings: Make, tmp_path: Path) -> None:
    settings = tiny_settings("digits-mmc")
    with pytest.raises(KeyboardInterrupt):
        train_model(settings, tmp_path / "run", reporter=StopAfter(7))
    folder = RunFolder(tmp_path / "run")
    with folder.metrics.open("a") as file:
        file.write('{"epoch": 2, "train_lo')
    train_model(settings, tmp_path / "run", resume=True)
    assert [line["epoch"] for line in folder.read_metrics()] == [1, 2, 3]


def test_epochs_between_measurements_change_nothing_but_the_metrics(tiny_settings: Make, tmp_path: Path) -> None:
    choices = ("digits-at-mmc", "data.validation=20", "train.epochs=5")
    for name, every in (("each", 1), ("second", 2)):
        train_model(tiny_settings(*choices, f"train.measure_every={every}"), tmp_path / name)
    assert_same(tmp_path / "each/last.safetensors", tmp_path / "second/last.safetensors")
    each, second = (RunFolder(tmp_path / name).read_metrics() for name in ("each", "second"))
    measured = ("test_accuracy", "validation_accuracy", "validation_pgd10")
    for key in measured:
        assert [line.get(key) for line in second] == [
            line[key] if line["epoch"] in (2, 4, 5) else None for line in each
        ]
    result = json.loads((tmp_path / "second/result.json").read_text())
    scores = {line["validation_pgd10"]: line["epoch"] for line in reversed(second) if "validation_pgd10" in line}
    assert result["best"]["epoch"] == scores[max(scores)]


def test_states_are_saved_now_and_then_and_at_the_end(
    tiny_settings: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first and the last epoch, and what a deadline stops; in between as often as the time says."""
    saved: list[int] = []
    original = run.save_state

    def save(*arguments: Any) -> None:
        saved.append(arguments[-1].epoch)
        original(*arguments)

    monkeypatch.setattr(run, "save_state", save)
    train_model(tiny_settings("digits-mmc", "train.epochs=5"), tmp_path / "seldom")
    monkeypatch.setattr(run, "SAVE_SECONDS", 0.0)
    train_model(tiny_settings("digits-mmc", "train.epochs=5"), tmp_path / "often")
    assert saved == [1, 5, 1, 2, 3, 4, 5]
    assert_same(tmp_path / "seldom/state.safetensors", tmp_path / "often/state.safetensors")


def test_the_seed_decides(tiny_settings: Make, tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train_model(tiny_settings("digits-mmc", f"train.seed={seed}"), tmp_path / name)
    assert_same(tmp_path / "a/last.safetensors", tmp_path / "b/last.safetensors")
    with pytest.raises(AssertionError):
        assert_same(tmp_path / "a/last.safetensors", tmp_path / "c/last.safetensors")


def test_training_leaves_the_callers_random_state_alone(tiny_settings: Make, tmp_path: Path) -> None:
    before = torch.get_rng_state()
    train_model(tiny_settings("digits-at-mmc"), tmp_path / "run")
    assert torch.equal(before, torch.get_rng_state())


def test_batches_belong_to_the_sample(tiny_settings: Make) -> None:
    """A sample's augmentation in an epoch is the same whatever the batch size."""
    seen = []
    for size in (24, 40):
        settings = tiny_settings("digits-mmc", f"train.batch_size={size}")
        data = load_splits(settings.data, None, "cpu").train
        images = {
            int(sample): image
            for batch in batches(data, settings, epoch=3)
            for sample, image in zip(batch.sample_ids, batch.images, strict=True)
        }
        seen.append(images)
    assert seen[0].keys() == seen[1].keys() == set(range(120))
    assert all(torch.equal(seen[0][sample], seen[1][sample]) for sample in seen[0])


def test_each_epoch_has_its_own_order(tiny_settings: Make) -> None:
    settings = tiny_settings("digits-mmc")
    data = load_splits(settings.data, None, "cpu").train
    orders = [torch.cat([batch.sample_ids for batch in batches(data, settings, epoch)]) for epoch in (0, 1, 0)]
    assert torch.equal(orders[0], orders[2])
    assert not torch.equal(orders[0], orders[1])
    assert torch.equal(orders[0].sort().values, torch.arange(120))


def test_adversarial_training_keeps_the_last_and_the_best(tiny_settings: Make, tmp_path: Path) -> None:
    result = train_model(tiny_settings("digits-at-mmc", "train.epochs=4"), tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    scores = [line["validation_pgd10"] for line in folder.read_metrics()]
    assert result["best"]["epoch"] == 1 + scores.index(max(scores))
    assert result["best"]["validation_pgd10"] == max(scores)
    assert result["last"]["epoch"] == 4
    assert load_card(folder.best).epoch == result["best"]["epoch"]
    assert {"test_accuracy", "test_pgd10"} <= result["best"].keys() & result["last"].keys()
    assert json.loads(folder.result.read_text()) == result


def test_a_kill_between_state_and_checkpoints_is_made_good(
    tiny_settings: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state commits; the checkpoints that follow from it are written again on resume, from the same weights."""
    settings = tiny_settings("digits-at-mmc", "train.epochs=4")
    whole = train_model(settings, tmp_path / "whole")

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for _ in range(4):
        with monkeypatch.context() as patch:
            patch.setattr("maxmahal.train.run.save_model", killed)
            with pytest.raises(KeyboardInterrupt):
                train_model(settings, tmp_path / "parts", resume=True)
    parts = train_model(settings, tmp_path / "parts", resume=True)
    for name in ("last", "best"):
        assert parts[name] == whole[name]
        assert_same(tmp_path / f"whole/{name}.safetensors", tmp_path / f"parts/{name}.safetensors")
        assert load_card(tmp_path / f"parts/{name}.safetensors").epoch == whole[name]["epoch"]


def test_parts_that_are_not_one_data_set_are_refused(tiny_settings: Make, tiny_npz: Path, tmp_path: Path) -> None:
    arrays = dict(np.load(tiny_npz))
    arrays["test_images"] = arrays["test_images"][:, :, :6]
    np.savez(tiny_npz, **arrays)
    with pytest.raises(DataError, match="both splits must have the same kind of images"):
        train_model(tiny_settings("digits-mmc"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_users_file_is_not_overwritten(tiny_settings: Make, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").write_text("mine")
    with pytest.raises(CheckpointError, match=r"\(metrics\.jsonl\)"):
        train_model(tiny_settings("digits-mmc"), tmp_path / "run")
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == "mine"


def test_a_run_that_fails_at_once_can_be_started_again(tiny_settings: Make, tmp_path: Path) -> None:
    with pytest.raises((TrainingDivergedError, ArgumentError)):
        train_model(tiny_settings("digits-mmc", "train.lr=1e30", "train.warmup=0"), tmp_path / "run")
    assert train_model(tiny_settings("digits-mmc"), tmp_path / "run")["last"]["epoch"] == 3


def test_what_a_preset_says_about_itself_does_not_stop_a_resume(tiny_settings: Make, tmp_path: Path) -> None:
    train_model(tiny_settings("digits-mmc"), tmp_path / "run")
    train_model(tiny_settings("digits-mmc", "about=renamed"), tmp_path / "run", resume=True)


def test_data_without_test_images_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "emptytest.py").write_text(
        "import torch\n"
        "from maxmahal.data import ImageData\n"
        "def data(split):\n"
        "    n = 30 if split == 'train' else 0\n"
        "    images = torch.zeros(n, 1, 8, 8, dtype=torch.uint8)\n"
        "    return ImageData.from_arrays('e', images, torch.arange(n) % 3, ('a', 'b', 'c'))\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="has no test images"):
        train_model(load_settings("digits-mmc", ["data.source=emptytest:data", "train.batch_size=8"]), tmp_path / "run")


def test_a_loss_without_centers_needs_none(tiny_settings: Make, tmp_path: Path) -> None:
    result = train_model(tiny_settings("digits-sce", "model.feature_dim=1", "centers.exact=true"), tmp_path / "run")
    assert result["last"]["epoch"] == 3


def test_a_saved_model_is_the_model(tiny_settings: Make, tmp_path: Path) -> None:
    settings = tiny_settings("digits-mmc", "loss.scale=2.0", "train.ema=0.5")
    result = train_model(settings, tmp_path / "run")
    model = load_model(tmp_path / "run")
    assert not model.training
    assert float(model.head.scale) == 2.0  # type: ignore[arg-type]
    test = load_splits(settings.data, None, "cpu").test
    assert accuracy(model, test) == result["last"]["test_accuracy"]
    assert load_card(tmp_path / "run/last.safetensors").settings == settings


def test_a_folder_with_a_run_is_not_overwritten(tiny_settings: Make, tmp_path: Path) -> None:
    train_model(tiny_settings("digits-mmc"), tmp_path / "run")
    before = weights(tmp_path / "run/last.safetensors")
    with pytest.raises(CheckpointError, match=r"already holds a run \(settings\.toml\)"):
        train_model(tiny_settings("digits-mmc"), tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"loss\.scale was 1\.0 and is now 2\.0"):
        train_model(tiny_settings("digits-mmc", "loss.scale=2.0"), tmp_path / "run", resume=True)
    assert all(torch.equal(before[name], value) for name, value in weights(tmp_path / "run/last.safetensors").items())


def test_resuming_a_finished_run_changes_nothing(tiny_settings: Make, tmp_path: Path) -> None:
    first = train_model(tiny_settings("digits-mmc"), tmp_path / "run")
    assert train_model(tiny_settings("digits-mmc"), tmp_path / "run", resume=True) == first


def test_two_processes_cannot_write_one_folder(tiny_settings: Make, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with folder.lock(), pytest.raises(CheckpointError, match="Another process is writing"):
        train_model(tiny_settings("digits-mmc"), tmp_path / "run", resume=True)


def test_scraps_of_a_killed_write_are_swept_away(tiny_settings: Make, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    scrap = tmp_path / "run" / ".state.safetensors.abc.maxmahal-tmp"
    scrap.write_text("half")
    train_model(tiny_settings("digits-mmc"), tmp_path / "run", resume=True)
    assert not scrap.exists()


def test_centers_out_of_reach_are_told_before_training(tiny_settings: Make, tmp_path: Path) -> None:
    notes = Notes()
    settings = tiny_settings("digits-mmc", f"model.backbone={__name__}:narrow", "train.epochs=1")
    train_model(settings, tmp_path / "narrow", reporter=notes)
    assert [text for text in notes.texts if text.startswith("Features come from a linear layer of width 1 ")]
    notes.texts.clear()
    train_model(tiny_settings("digits-mmc", "train.epochs=1"), tmp_path / "wide", reporter=notes)
    assert not [text for text in notes.texts if "linear layer" in text]


def test_other_threads_are_noticed(tiny_settings: Make, tmp_path: Path) -> None:
    settings = tiny_settings("digits-mmc")
    with pytest.raises(KeyboardInterrupt):
        train_model(settings, tmp_path / "run", reporter=StopAfter(7))
    notes, threads = Notes(), torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        train_model(settings, tmp_path / "run", resume=True, reporter=notes)
    finally:
        torch.set_num_threads(threads)
    assert any(f"started with {threads} threads and is resumed with {threads + 1}" in text for text in notes.texts)


def test_divergence_is_told_and_the_last_good_epoch_stays(tiny_settings: Make, tmp_path: Path) -> None:
    settings = tiny_settings("digits-mmc", "train.lr=1e9", "train.warmup=0", "train.epochs=40")
    with pytest.raises((TrainingDivergedError, ArgumentError), match=r"lower train.lr|Lower the learning rate"):
        train_model(settings, tmp_path / "run")


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["train.batch_size=1000"], "train.batch_size = 1000 is larger than the 120 training images"),
        (["data.validation=500"], "validation"),
        (["loss.scale=-1"], "scale must be positive"),
        (["centers.exact=true", "model.feature_dim=1"], "exact"),
        (["model.backbone=nowhere:net"], "there is no module 'nowhere'"),
        (["model.backbone=math:sqrte"], "did you mean 'sqrt'"),
    ],
)
def test_mistakes_leave_no_folder_behind(
    overrides: list[str], sentence: str, tiny_settings: Make, tmp_path: Path
) -> None:
    with pytest.raises((SettingsError, ArgumentError), match=sentence):
        train_model(tiny_settings("digits-mmc", *overrides), tmp_path / "run")
    assert not (tmp_path / "run" / "last.safetensors").exists()
    assert not (tmp_path / "run").exists()


@pytest.fixture
def own_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A network of the user's own, with dropout, in a module outside the package."""
    (tmp_path / "mynet.py").write_text(
        "from torch import nn\n"
        "def make(image_shape, feature_dim):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(64, feature_dim))\n"
    )
    monkeypatch.chdir(tmp_path)
    sys.modules.pop("mynet", None)
    return "model.backbone=mynet:make"


def test_a_users_own_network(own_network: str, tiny_settings: Make, tmp_path: Path) -> None:
    train_model(tiny_settings("digits-at-mmc", own_network), tmp_path / "run")
    with pytest.raises(CheckpointError, match="say --trust mynet:make"):
        load_model(tmp_path / "run")
    own = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(64, 8))
    assert load_model(tmp_path / "run", backbone=own).backbone is own


def test_a_network_that_the_user_names_is_rebuilt(own_network: str, tiny_settings: Make, tmp_path: Path) -> None:
    train_model(tiny_settings("digits-mmc", own_network), tmp_path / "run")
    own = load_model(tmp_path / "run", backbone=nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(64, 8)))
    (tmp_path / "moved.py").write_text((tmp_path / "mynet.py").read_text())
    for names in (["mynet:make"], ["moved:make"], ["math:sqrt", "mynet:make"]):
        loaded = load_model(tmp_path / "run", trusted=names)
        for key, value in own.state_dict().items():
            assert torch.equal(loaded.state_dict()[key], value)
    with pytest.raises(CheckpointError, match="say --trust mynet:make"):
        load_model(tmp_path / "run")  # the next call needs the name again
    with pytest.raises(CheckpointError, match="say --trust mynet:make"):
        load_model(tmp_path / "run", trusted=["math:sqrt", "moved:make"])  # neither of two others can be chosen


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("nn.Sequential(nn.Flatten(), nn.Linear(64, 5))", "of shape .*--set model.feature_dim=5"),
        ("nn.Sequential(nn.Flatten(), nn.Linear(9, feature_dim))", "mynet:make failed: RuntimeError"),
        ("nn.Sequential(nn.Flatten(), nn.Linear(64, feature_dim).requires_grad_(False))", "without a gradient"),
        ("nn.Sequential(nn.Flatten(), nn.LSTM(64, feature_dim))", "must return one tensor of features; got a tuple"),
    ],
)
def test_a_network_that_cannot_be_trained_leaves_no_folder(
    body: str, sentence: str, own_network: str, tiny_settings: Make, tmp_path: Path
) -> None:
    (tmp_path / "mynet.py").write_text(
        f"from torch import nn\ndef make(image_shape, feature_dim):\n    return {body}\n"
    )
    sys.modules.pop("mynet", None)
    with pytest.raises((ArgumentError, SettingsError), match=sentence):
        train_model(tiny_settings("digits-mmc", own_network), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_dropout_resumes_to_the_same_bits(own_network: str, tiny_settings: Make, tmp_path: Path) -> None:
    settings = tiny_settings("digits-mmc", own_network)
    train_model(settings, tmp_path / "whole")
    torch.rand(3)  # whatever happened in the process before must not matter
    with pytest.raises(KeyboardInterrupt):
        train_model(settings, tmp_path / "parts", reporter=StopAfter(8))
    torch.rand(5)
    train_model(settings, tmp_path / "parts", resume=True)
    assert_same(tmp_path / "whole/state.safetensors", tmp_path / "parts/state.safetensors")


def test_first_difference_names_the_setting() -> None:
    assert first_difference({"a": {"b": 1}}, {"a": {"b": 2}}) == "a.b was 1 and is now 2"
    assert first_difference({"a": {"b": 1}}, {"a": {"b": 1}}) == ""


def test_released_settings_differ_from_the_papers_text() -> None:
    assert load_settings("cifar10-mmc-released").model.backbone == "resnet47v2"


def extended(out: Path, *overrides: str) -> Settings:
    return resumed_settings("digits-mmc", [*SHORT, *overrides], RunFolder(out))


SHORT = ["train.schedule=step", "data.limit=200", "data.test_limit=50"]


def test_an_extended_run_is_the_same_as_one_that_was_planned_so(tmp_path: Path) -> None:
    train_model(load_settings("digits-mmc", [*SHORT, "train.epochs=2"]), tmp_path / "run")
    notes = Notes()
    settings = extended(tmp_path / "run", "train.epochs=4")
    result = train_model(settings, tmp_path / "run", resume=True, reporter=notes)
    assert result["last"]["epoch"] == 4
    assert result["settings"]["train"]["schedule_epochs"] == 2
    assert any("extended from 2 to 4 epochs, at its last learning rate" in line for line in notes.texts)
    rates = [each["lr"] for each in RunFolder(tmp_path / "run").read_metrics()]
    assert rates[2] == rates[3] == rates[1] == pytest.approx(settings.train.lr * settings.train.factor**2)
    planned = load_settings("digits-mmc", [*SHORT, "train.epochs=4", "train.schedule_epochs=2"])
    train_model(planned, tmp_path / "planned")
    weights = [load_file(tmp_path / name / "last.safetensors") for name in ("run", "planned")]
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[1])
    again = extended(tmp_path / "run", "train.epochs=5")  # the schedule stays that of the first two epochs
    assert (again.train.epochs, again.train.scheduled) == (5, 2)
    assert train_model(again, tmp_path / "run", resume=True)["last"]["epoch"] == 5


class StopsAfterAnEpoch(Silent):
    def epoch(self, metrics: dict[str, int | float]) -> None:
        raise KeyboardInterrupt


def test_an_extended_run_of_ones_own_file_is_resumed_by_the_same_command(tmp_path: Path) -> None:
    mine, folder = tmp_path / "mine.toml", RunFolder(tmp_path / "run")
    mine.write_text('extends = "digits-mmc"\n[train]\nepochs = 2\nschedule = "step"\n[data]\nlimit = 200\n')
    train_model(load_settings(mine), folder.path)
    settings = resumed_settings(mine, ["train.epochs=4"], folder)
    with pytest.raises(KeyboardInterrupt):
        train_model(settings, folder.path, resume=True, reporter=StopsAfterAnEpoch())
    assert not folder.result.exists(), "that of the shorter run is gone"
    again = resumed_settings(mine, ["train.epochs=4"], folder)
    assert again.train.schedule_epochs == 2
    assert train_model(again, folder.path, resume=True)["last"]["epoch"] == 4


def test_what_cannot_be_extended_is_refused(tmp_path: Path) -> None:
    train_model(load_settings("digits-mmc", [*SHORT, "train.epochs=2"]), tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"train\.epochs was 2 and is now 1"):
        train_model(extended(tmp_path / "run", "train.epochs=1"), tmp_path / "run", resume=True)
    with pytest.raises(CheckpointError, match="started with other settings"):
        train_model(extended(tmp_path / "run", "train.epochs=3", "train.lr=0.5"), tmp_path / "run", resume=True)
    # In Python a longer schedule for epochs that are already trained is another training.
    with pytest.raises(CheckpointError, match=r"train\.epochs was 2 and is now 3"):
        train_model(load_settings("digits-mmc", [*SHORT, "train.epochs=3"]), tmp_path / "run", resume=True)
    with pytest.raises(SettingsError, match="A cosine schedule ends at a learning rate of 0"):
        extended(tmp_path / "run", "train.epochs=3", "train.schedule=cosine")
    with pytest.raises(SettingsError, match="schedule_epochs must lie below"):
        load_settings("digits-mmc", [*SHORT, "train.epochs=3", "train.schedule_epochs=3"])
