"""A run that diverged remembers it, so that nobody has to find it out twice."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from maxmahal.train import RunFolder, Settings, train_model
from maxmahal.train import loop as training_loop
from maxmahal.train.loop import TrainingDivergedError

Make = Callable[..., Settings]
WILD = ("train.lr=1e30", "train.warmup=0")


@pytest.mark.parametrize("preset", ["digits-mmc", "digits-sce", "digits-at-mmc"])
def test_a_run_that_diverges_at_once_says_so_and_keeps_it(preset: str, tiny_settings: Make, tmp_path: Path) -> None:
    settings, folder = tiny_settings(preset, *WILD), RunFolder(tmp_path / "run")
    with pytest.raises(TrainingDivergedError, match=r"^Training diverged in epoch 1 \(.*lower train.lr \(now 1e\+30\)"):
        train_model(settings, folder.path)
    assert folder.diverged_at(settings) == 1
    # What a preset says about itself decides nothing; any other setting may.
    assert folder.diverged_at(tiny_settings(preset, *WILD, "about=renamed")) == 1
    assert folder.diverged_at(tiny_settings(preset, *WILD, "train.seed=1")) is None
    assert not folder.settings.exists()


@pytest.mark.parametrize(("first", "lr", "seen"), [(10, 1e30, "features"), (14, math.inf, "mean loss")])
def test_a_run_that_diverges_later_keeps_its_last_good_epoch(
    first: int, lr: float, seen: str, tiny_settings: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its third epoch of five steps: seen by the next step, or after the last one in the weights alone."""
    settings, folder = tiny_settings("digits-mmc", "train.epochs=4"), RunFolder(tmp_path / "run")
    with monkeypatch.context() as patched:
        patched.setattr(training_loop, "learning_rate", lambda _, step, __: lr if step >= first else 0.01)
        with pytest.raises(TrainingDivergedError, match=rf"in epoch 3 \({seen}"):
            train_model(settings, folder.path)
    assert folder.diverged_at(settings) == 3
    assert len(folder.read_metrics()) == 2
    # Whoever trains it in spite of that is not told of the earlier end.
    train_model(settings, folder.path, resume=True)
    assert folder.diverged_at(settings) is None
    assert folder.result.exists()


@pytest.mark.parametrize("text", ["", "[]", '{"epoch": 3', '{"epoch": 3}', '{"epoch": "x", "settings": {}}', "\xff"])
def test_a_damaged_note_is_no_note(text: str, tiny_settings: Make, tmp_path: Path) -> None:
    folder, settings = RunFolder(tmp_path), tiny_settings("digits-mmc")
    assert folder.diverged_at(settings) is None
    folder.write_diverged(2, settings)
    assert folder.diverged_at(settings) == 2
    assert json.loads(folder.diverged.read_text())["epoch"] == 2
    folder.diverged.write_text(text, encoding="latin-1")
    assert folder.diverged_at(settings) is None
