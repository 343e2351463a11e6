"""A loss and an attack of the user's own, named in a preset and in a suite: trained, evaluated and loaded again."""

import sys
import time
from pathlib import Path

import pytest
import torch

from maxmahal.attacks.registry import ATTACKS, Attack, clean
from maxmahal.errors import ArgumentError, CheckpointError, SettingsError
from maxmahal.evaluate import evaluate_model, evaluate_models, read_evaluations
from maxmahal.evaluate.suite import load_suite
from maxmahal.train import load_model, load_settings, train_model

pytestmark = pytest.mark.usefixtures("unchecked")
LOSS = """
from maxmahal.losses import CenterHead, mmc_loss

class Doubled(CenterHead):
    def __init__(self, centers, *, scale: float = 1.0, factor: float = 2.0) -> None:
        super().__init__(centers, scale=scale)
        self.factor = factor

    def per_sample(self, features, labels):
        return self.factor * self.scale * mmc_loss(features, labels, self.centers)

def no_loss(centers):
    return None
"""
ATTACK = """
import torch
from maxmahal.attacks import Attack, Engine, pgd

def walk(model, images, labels, *, threat, seed: int, times: int = 2, restarts: int | None = None, engine: Engine):
    return pgd(model, images, labels, threat, steps=times, seed=seed, engine=engine)

def jump(model, images, labels, *, threat, seed: int, times: int = 4, far: float = 1.0):
    draws = torch.Generator().manual_seed(seed % 2**31)
    best = images
    for _ in range(times):
        moved = images + far * (2 * torch.rand(images.shape, generator=draws) - 1).sign()
        right = model(best).argmax(dim=1) == labels
        best = torch.where(right[:, None, None, None], moved, best)
    return best

blind = Attack(jump, needs_gradients=False)

def untyped(model, images, labels, *, times=4):
    return images

def fewer(model, images, labels):
    return images[:1]

def lost(model, images, labels):
    images[0] /= 0
    return images
"""
PRESET = """
extends = "digits-mmc"
[data]
source = "{source}"
[model]
feature_dim = 8
[loss]
name = "ownloss:Doubled"
factor = 3
[train]
epochs = 1
batch_size = 24
lr = 0.0001
"""
SUITE = """
version = 1
about = "my attack"
epsilon = "64/255"
[[stage]]
name = "jump"
attack = "ownattack:{name}"
times = 2
[[stage]]
name = "own"
attack = "pgd"
objective = "own"
steps = 2
"""


@pytest.fixture
def here(tiny_npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder outside of the package with the user's code, a preset and a suite, to work in."""
    (tmp_path / "ownloss.py").write_text(LOSS)
    (tmp_path / "ownattack.py").write_text(ATTACK)
    (tmp_path / "mine.toml").write_text(PRESET.format(source=tiny_npz))
    (tmp_path / "suite.toml").write_text(SUITE.format(name="jump"))
    monkeypatch.chdir(tmp_path)
    for module in ("ownloss", "ownattack"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return tmp_path


def test_ones_own_loss_and_attack_go_through_every_command(run, here: Path) -> None:
    trained = run("train", "mine.toml", "--out", "run", "--set", "loss.scale=2", "--device", "cpu")
    assert trained.code == 0, trained.err
    words = ["evaluate", "run", "--suite", "suite.toml", "--limit", "6", "--out", "eval", "--device", "cpu"]
    run(*words).assert_refused("A file names 'ownloss:Doubled'", "say --trust ownloss:Doubled")
    assert not (here / "eval").exists()
    done = run(*words, "--trust", "ownloss:Doubled")
    assert done.code == 0, done.err
    (found,) = read_evaluations(here / "eval")
    stage = found.stage("jump")
    assert (stage.kind, stage.settings["times"], stage.settings["far"]) == ("ownattack:jump", 2, 1.0)
    assert found.model["loss"] == "ownloss:Doubled"
    assert found.model["settings"]["loss"] == {"name": "ownloss:Doubled", "scale": 2.0, "factor": 3.0}
    limit = 64 / 255
    assert (stage.columns.distortion[stage.columns.broken] <= limit + 1e-6).all(), "it is projected into the ball"
    assert not found.stage("own").skipped
    before = len(found.stages)
    assert run(*words, "--trust", "ownloss:Doubled").code == 0, "the same call goes on"
    assert len(read_evaluations(here / "eval")[0].stages) == before
    assert run("report", "eval", "--out", "page.html").code == 0
    again = run("train", "mine.toml", "--out", "run", "--set", "loss.scale=2", "--device", "cpu", "--resume")
    assert again.code == 0, again.err


def test_ones_own_attack_may_report_its_progress_and_run_out_of_time(here: Path) -> None:
    train_model(load_settings("mine.toml", ["loss.name=mmc"]), "run")
    (here / "suite.toml").write_text(SUITE.format(name="walk"))
    source = load_settings("mine.toml").data.source
    (found,) = evaluate_models(["run"], source, out="eval", suite="suite.toml", limit=6)
    assert found.finished
    assert found.stage("jump").kind == "ownattack:walk"
    (late,) = evaluate_models(["run"], source, out="late", suite="suite.toml", limit=6, until=time.monotonic())
    assert not late.finished


def test_a_loss_that_cannot_be_imported_is_named_and_the_file_is_not_called_damaged(here: Path) -> None:
    train_model(load_settings("mine.toml"), "run")
    model = load_model("run", trusted=["ownloss:Doubled"])
    assert (type(model.head).__name__, model.head.factor) == ("Doubled", 3.0)
    with pytest.raises(CheckpointError, match="'ownloss:Doubled', and a file may not choose what code to run"):
        load_model("run")
    (here / "ownloss.py").rename(here / "elsewhere.py")
    sys.modules.pop("ownloss")
    with pytest.raises(ArgumentError, match="ownloss:Doubled: there is no module 'ownloss'") as caught:
        load_model("run", trusted=["ownloss:Doubled"])
    assert "damaged" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("loss.name=ownloss:no_loss", "must name a subclass of maxmahal.Head"),
        ("loss.name=ownloss:Dubled", "did you mean 'Doubled'?"),
        ("loss.facto=3", "did you mean 'loss.factor'?"),
        ("loss.factor=much", "loss.factor must be a finite number"),
        ("centers.name=ownloss:Doubled", "centers.name = 'ownloss:Doubled' is unknown"),
    ],
)
def test_mistakes_in_ones_own_loss_are_one_sentence(here: Path, name: str, part: str) -> None:
    with pytest.raises((SettingsError, ArgumentError), match=part):
        load_settings("mine.toml", [name])


@pytest.mark.parametrize(
    ("attack", "part"),
    [
        ("ownattack:jumpp", "did you mean 'jump'?"),
        ("nowhere:jump", "there is no module 'nowhere'"),
        ("ownattack:untyped", "untyped: give the parameter 'times' a type"),
    ],
)
def test_mistakes_in_ones_own_attack_are_one_sentence(here: Path, attack: str, part: str) -> None:
    (here / "suite.toml").write_text(SUITE.replace("ownattack:{name}", attack))
    with pytest.raises((SettingsError, ArgumentError), match=part):
        load_suite("suite.toml")


def test_facts_stated_about_ones_own_attack_count(here: Path) -> None:
    """A function without gradients is attacked by what needs none."""
    train_model(load_settings("mine.toml", ["loss.name=mmc"]), "run")
    model = load_model("run")

    def answers(images: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return model(images)

    for name, skipped in (("jump", True), ("blind", False)):
        (here / "suite.toml").write_text(SUITE.format(name=name))
        found = evaluate_model(
            answers, out=name, suite="suite.toml", data=load_settings("mine.toml").data.source, limit=6
        )
        assert bool(found.stage("jump").skipped) == skipped, name


def test_images_of_the_wrong_shape_are_refused(here: Path) -> None:
    train_model(load_settings("mine.toml", ["loss.name=mmc"]), "run")
    (here / "suite.toml").write_text(SUITE.format(name="fewer").replace("times = 2\n", ""))
    with pytest.raises(ArgumentError, match="ownattack:fewer must return a Result, or images as it was given them"):
        evaluate_model("run", out="eval", suite="suite.toml", limit=6)


def test_pixels_that_are_not_finite_are_the_attacks_mistake(here: Path) -> None:
    train_model(load_settings("mine.toml", ["loss.name=mmc"]), "run")
    (here / "suite.toml").write_text(SUITE.format(name="lost").replace("times = 2\n", ""))
    with pytest.raises(ArgumentError, match=r"ownattack:lost returned NaN or infinite pixels for 1 of \d images; look"):
        evaluate_model("run", out="eval", suite="suite.toml", limit=6)


def test_a_new_attack_of_the_package_is_one_file_and_one_line(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the registry knows it: its options are parsed, it runs, is recorded and goes on."""
    train_model(load_settings("mine.toml", ["loss.name=mmc"]), "run")

    def toy(model, images, labels, *, threat, times: int = 4):  # type: ignore[no-untyped-def]
        return clean(model, threat.project(images, images + 0.1 * times), labels)

    monkeypatch.setitem(ATTACKS, "toy", Attack(toy, needs_gradients=False))
    text = SUITE.format(name="jump").replace("ownattack:jump", "toy")
    (here / "suite.toml").write_text(text)
    found = evaluate_model("run", out="eval", suite="suite.toml", limit=6)
    assert (found.stage("jump").kind, found.stage("jump").settings["times"]) == ("toy", 2)
    assert found.stage("jump").threat == "Linf 64/255"
    (here / "suite.toml").write_text(text.replace("times", "tims"))
    with pytest.raises(SettingsError, match="'tims' is not an option of toy"):
        load_suite("suite.toml")
