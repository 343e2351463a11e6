"""The training movie shows what the three losses do, and the training behind it is the library's own."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from maxmahal.train import RunFolder, Settings, load_model, train_model
from maxmahal.train.splits import load_splits
from paper.gallery import FigureRecord
from paper.gallery.figure import restore, unpack
from paper.gallery.figures.training_movie import moments, player
from paper.gallery.models import fit


def film(records: dict[str, FigureRecord], name: str) -> FigureRecord:
    found: FigureRecord = next(each for each in records["training-movie"]["films"] if each["name"] == name)
    return found


def test_features_gather_spread_and_collapse(records: dict[str, FigureRecord]) -> None:
    labels = unpack(records["training-movie"]["labels"])
    gathered = film(records, "MMC")
    centers = np.array(gathered["centers"][0])
    frames = restore(unpack(gathered["features"]), gathered["view"])
    distances = np.linalg.norm(frames - centers[labels], axis=2).mean(axis=1)
    assert distances[-1] < 0.5 * distances[0]
    spread = film(records, "SCE")
    assert spread["between"][-1] > 10 * spread["between"][0]
    alone = film(records, "center loss alone")
    assert alone["between"][-1] < 0.6 * alone["between"][0]
    assert alone["within"][-1] < 0.5 * max(alone["within"])


def test_only_the_centers_that_move_are_kept_for_every_frame(records: dict[str, FigureRecord]) -> None:
    frames = len(records["training-movie"]["steps"])
    assert [len(film(records, name)["centers"]) for name in ("MMC", "SCE", "center loss alone")] == [1, 0, frames]


def test_looks_are_dense_at_first_and_end_with_the_training() -> None:
    looks = moments(epochs=30, per_epoch=20)
    assert looks[:4] == [0, 1, 2, 3]
    assert looks[-1] == 600
    assert {20 * epoch for epoch in range(31)} <= set(looks)
    assert looks == sorted(set(looks))
    gaps = np.diff(looks)
    assert gaps[0] < gaps[-1] == 20


def test_the_player_gets_a_byte_a_coordinate(records: dict[str, FigureRecord]) -> None:
    record = records["training-movie"]
    film = player(record)
    assert len(film["labels"]) == len(record["steps"])
    assert film["labels"][0] == "before training"
    assert {panel["dots"]["bits"] for panel in film["panels"]} == {8}


@pytest.mark.parametrize("preset", ["digits-mmc", "digits-center-alone"])
def test_fitting_is_training(tiny_settings: Callable[..., Settings], tmp_path: Path, preset: str) -> None:
    settings = tiny_settings(preset, "model.feature_dim=2")
    train_model(settings, tmp_path / "run")
    trained = load_model(RunFolder(tmp_path / "run").last)
    seen: list[int] = []
    before = torch.random.get_rng_state()
    fitted = fit(settings, load_splits(settings.data, None, "cpu").train, lambda model, step: seen.append(step))
    assert torch.equal(before, torch.random.get_rng_state())
    assert seen == list(range(3 * 5 + 1))
    for name, tensor in trained.state_dict().items():
        assert torch.equal(tensor, fitted.state_dict()[name]), name
