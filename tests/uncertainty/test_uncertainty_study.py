"""The whole study: out-of-distribution images, one model after another, and a record that survives its file."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from maxmahal.attacks.objectives import model_outputs
from maxmahal.data import ImageData, load_dataset
from maxmahal.errors import ArgumentError, DataError
from maxmahal.evaluate.evaluated_model import load_target
from maxmahal.models import Classifier, accuracy
from maxmahal.records.schema import RecordsError
from maxmahal.train import Settings, train_model
from maxmahal.uncertainty import (
    CHANGES,
    SCORES,
    Detection,
    DetectorAttack,
    ModelUncertainty,
    ScoreResult,
    UncertaintyRecord,
    auroc,
    ood_images,
    read_record,
    study_model,
    write_record,
)
from maxmahal.uncertainty.ood import fit

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(scope="module")
def digits() -> ImageData:
    return load_dataset("digits", "test").first(20)


@pytest.mark.parametrize("rows", [8, 6], ids=["square", "wide"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_keeps_shape_and_range_and_changes_every_image(name: str, rows: int, digits: ImageData) -> None:
    data = replace(digits, images=digits.images[:, :, :rows])
    images = data.float_images()
    strange = ood_images(name, data)
    assert strange.shape == images.shape
    assert 0 <= float(strange.min()) <= float(strange.max()) <= 1
    assert all(not torch.equal(a, b) for a, b in zip(images, strange, strict=True))


def test_scrambling_belongs_to_the_sample_and_loses_no_pixel(digits: ImageData) -> None:
    whole = ood_images("scrambled", digits)
    alone = ood_images("scrambled", digits.select(torch.tensor([7])))
    assert torch.equal(alone[0], whole[7])
    assert torch.equal(whole.flatten(1).sort().values, digits.float_images().flatten(1).sort().values)


def test_another_data_set_is_made_to_fit(digits: ImageData, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 255, (30, 28, 28, 3), dtype=np.uint8), np.arange(30) % 3
    path = tmp_path / "other.npz"
    np.savez(path, images=images, labels=labels, test_images=images, test_labels=labels)
    assert ood_images(str(path), digits).shape == (20, 1, 8, 8)


def test_fitting_averages_shrunk_images_and_repeats_grey_ones() -> None:
    board = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).repeat(4, 4)[None, None]
    assert torch.equal(fit(board, (1, 4, 4)), torch.full((1, 1, 4, 4), 0.5))
    assert fit(board, (3, 8, 8)).shape == (1, 3, 8, 8)
    assert fit(board, (1, 16, 16)).shape == (1, 1, 16, 16)
    white = torch.ones(1, 3, 4, 4)
    assert fit(white, (1, 4, 4)).tolist()[0][0][0] == pytest.approx([1.0] * 4)


def test_the_models_own_data_is_refused(digits: ImageData) -> None:
    with pytest.raises(DataError, match="trained on"):
        ood_images("digits", digits)


def test_a_study_says_what_its_parts_say(tiny_settings: Callable[..., Settings], tmp_path: Path) -> None:
    train_model(tiny_settings("digits-mmc", "train.epochs=2"), tmp_path / "mmc")
    subject = load_target(tmp_path / "mmc")
    model = subject.model
    assert isinstance(model, Classifier)
    data = load_dataset(str(tmp_path / "stripes.npz"), "test")
    images = data.float_images()
    ood = {"inverted": ood_images("inverted", data)}
    result = study_model(subject, data, ood, DetectorAttack("0.3", seed=1, steps=4))

    assert result.accuracy == accuracy(model, data)
    (score,) = (each for each in SCORES if each.name == "loss")
    found = result.of("loss")
    assert found is not None
    with torch.no_grad():
        clean = score(model.head, model_outputs(model, images)).double().numpy()
        strange = score(model.head, model_outputs(model, ood["inverted"])).double().numpy()
    assert found.ood == {"inverted": pytest.approx(auroc(strange, clean))}
    attacked = DetectorAttack("0.3", seed=1, steps=4)(model, data, score)
    with torch.no_grad():
        values = score(model.head, model_outputs(model, attacked.images)).double().numpy()
    fooled = attacked.fooled.numpy()
    assert 0 < fooled.mean() == pytest.approx(found.evading.fooled)
    assert found.evading.auroc == pytest.approx(auroc(values[fooled], clean))
    alarm = np.sort(clean)[int(0.95 * len(clean)) - 1 : int(0.95 * len(clean)) + 1]  # the quantile lies between
    lowest, highest = ((fooled & (values <= limit)).mean() for limit in alarm)
    assert lowest <= found.evading.undetected <= highest
    assert found.ignoring.fooled >= 1 - result.accuracy


def test_a_model_that_shows_no_features_is_refused(digits: ImageData) -> None:
    stranger = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)).eval()
    with pytest.raises(ArgumentError, match="shows no features"):
        study_model(load_target(stranger), digits, {}, DetectorAttack("0.1"))


def test_a_record_comes_back_as_it_was_written_even_where_nothing_could_be_measured(tmp_path: Path) -> None:
    score = ScoreResult("loss", math.nan, 0.1, {"turned": 0.5}, Detection(0.0, math.nan, 0.0), Detection(1, 0.25, 0.5))
    model = ModelUncertainty("m", "mmc", 3, "digits", 500, 0.9, 0.01, 0.005, "f", (score,))
    record = UncertaintyRecord("0.1", 0, 50, ("turned",), (model, model))
    path = tmp_path / "record.json"
    write_record(path, record)
    back = read_record(path)
    assert repr(back) == repr(record)  # NaN is not equal to itself
    assert "NaN" not in path.read_text()


@pytest.mark.parametrize("text", ["", "{}", '{"format": "maxmahal-uncertainty-1"}', "[1]"])
def test_a_file_that_is_no_record_is_told(text: str, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(RecordsError, match="maxmahal uncertainty"):
        read_record(path)
