"""A ball of the user's own in a suite: attacks stay in it, records name it, and what cannot keep to it is refused."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from small_evaluations_helpers import curved, identity, labelled_by, small_suite, stage

from maxmahal.attacks import Linf, square
from maxmahal.errors import ArgumentError, SettingsError
from maxmahal.evaluate import attack_hard, evaluate_model, evaluate_models, read_evaluations
from maxmahal.evaluate.suite import Suite, load_suite
from maxmahal.report import write_page

MODEL = curved()
DATA = labelled_by(MODEL, 24)
MODULE = """
import torch
from maxmahal.attacks import Linf

print("imported")


class LeftHalf(Linf):
    def project(self, images, moved):
        left = torch.arange(images.shape[3]) < images.shape[3] // 2
        return torch.where(left, super().project(images, moved), images)


class Uneven(Linf):
    # The right half may move a third as far.
    def project(self, images, moved):
        least, most = images - self._most(images), images + self._most(images)
        return torch.minimum(torch.maximum(moved, least), most).clamp(0, 1)

    def distances(self, images, moved):
        return (self.radius * (moved - images) / self._most(images)).abs().flatten(1).amax(dim=1)

    def _most(self, images):
        left = torch.arange(images.shape[3]) < images.shape[3] // 2
        return self.radius * torch.where(left, 1.0, 1 / 3).to(images)


class Boastful(Linf):
    def project(self, images, moved):
        return moved.clamp(0, 1)


class Lost(Linf):
    def distances(self, images, moved):
        return super().distances(images, moved) / 0


def wider(epsilon):
    return Linf(2 * epsilon)


def number(epsilon):
    return epsilon


def broken(epsilon):
    raise ValueError("no ball today")
"""
STAGES = """
version = 1
about = "attacks that know every ball"
[[stage]]
name = "apgd"
attack = "apgd"
steps = 5
[[stage]]
name = "spsa"
attack = "spsa"
steps = 3
evaluations = 8
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "balls.py").write_text(MODULE)
    (tmp_path / "half.toml").write_text(f'norm = "balls:LeftHalf"\nepsilon = "1/5"\n{STAGES}')
    (tmp_path / "plain.toml").write_text(STAGES)
    return tmp_path


def own(norm: str = "balls:LeftHalf", **changes: object) -> Suite:
    attacks = stage("apgd", "apgd", steps=5), stage("mim", "mim", steps=3)
    return small_suite(*attacks, norm=norm, epsilon="0.2", **changes)


def test_every_attack_stays_in_the_users_ball_and_the_records_name_it(here: Path) -> None:
    found = evaluate_model(MODEL, DATA, suite="half.toml", out="out", save_images=True)
    (saved,) = read_evaluations("out")
    assert (saved.norm, saved.epsilon, saved.radius) == ("balls:LeftHalf", "1/5", 0.2)
    assert [each.threat for each in saved.stages[1:]] == ["balls:LeftHalf 1/5"] * 2
    broken = found.stage("apgd").columns.broken
    assert broken.any()
    for file in here.glob("out/images/*/*balls-LeftHalf-1-5*/*/*.npz"):
        with np.load(file) as chunk:
            clean = DATA.float_images()[torch.from_numpy(chunk["sample"])].numpy()
            moved = np.abs(chunk["images"] - clean)
        half = moved.shape[3] // 2
        assert moved[..., half:].max() == 0
        assert 0 < moved[..., :half].max() <= 0.2 + 1e-6
    whole = evaluate_model(MODEL, DATA, suite="plain.toml", norm="Linf", epsilon="1/5")
    assert whole.stage("apgd").columns.broken.sum() > broken.sum()


@pytest.mark.parametrize(("norm", "share"), [("balls:LeftHalf", 0), ("balls:Uneven", 1 / 3)])
def test_rounded_images_stay_in_the_users_ball(here: Path, norm: str, share: float) -> None:
    evaluate_model(MODEL, DATA, suite="plain.toml", norm=norm, epsilon="53/255", out="out", save_images=True)
    pictures = sorted(here.glob("out/images/*/*/apgd/*.png"))
    assert pictures
    for path in pictures:
        clean = DATA.images[int(path.stem.removeprefix("sample-"))].numpy()
        moved = np.abs(np.asarray(Image.open(path)).astype(int) - clean[0])
        assert moved[:, moved.shape[1] // 2 :].max() <= share * 53
        assert 0 < moved.max() <= 53


@pytest.mark.parametrize("attack", [square, attack_hard])
def test_attacks_of_two_balls_refuse_a_ball_that_is_made_from_one(attack: Callable[..., object]) -> None:
    """Square and AutoAttack would leave a ball that allows less than the one it is made from."""
    left = own().threat_of(None)
    assert isinstance(left, Linf)
    with pytest.raises(ArgumentError, match="knows the threats Linf and L2"):
        attack(MODEL, DATA.float_images(), DATA.labels, left)


def test_a_ball_can_be_named_in_the_call_and_reading_records_runs_no_code(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"suite": "plain.toml", "norm": "balls:LeftHalf", "epsilon": "1/5"}
    found = evaluate_model(MODEL, DATA, out="out", **asked)
    assert identity(found) == identity(evaluate_model(MODEL, DATA, suite="half.toml"))
    (here / "balls.py").write_text("raise AssertionError")
    capsys.readouterr()
    (saved,) = read_evaluations("out")
    write_page([saved], here / "page.html")
    assert identity(saved) == identity(found)
    assert "balls:LeftHalf 1/5" in (here / "page.html").read_text()
    assert "imported" not in capsys.readouterr().out


def test_the_planned_times_need_no_attack_that_does_not_know_the_ball(here: Path) -> None:
    (here / "nets.py").write_text(
        "from torch import nn\n\n\ndef net():\n    return nn.Sequential(nn.Flatten(), nn.Linear(16, 4)).eval()\n"
    )
    arguments = {"data": DATA.first(8), "out": "out", "suite": "half.toml", "dry_run": True}
    assert evaluate_models({"net": "nets:net"}, **arguments) == []


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: load_suite("plain.toml", norm="balls:LeftHalf"), ["norm = balls:LeftHalf needs an epsilon"]),
        (lambda: load_suite("plain.toml", norm="Linff", epsilon="0.1"), ["norm = Linff", "did you mean 'Linf'?"]),
        (lambda: load_suite("plain.toml", norm="balls:LeftHalves", epsilon="0.1"), ["did you mean 'LeftHalf'?"]),
        (lambda: load_suite("half.toml", epsilon="-1"), ["epsilon = -1", "must be positive"]),
        (lambda: load_suite("half.toml", norm="Linf"), ["norm = Linf needs an epsilon", "balls:LeftHalf"]),
        (lambda: load_suite("strict", norm="balls:LeftHalf", epsilon="0.1"), ["checks for false", "diagnose = false"]),
        (lambda: load_suite("medium", norm="balls:LeftHalf", epsilon="0.1"), ["square knows Linf and L2"]),
        (lambda: own("balls:number"), ["must return a threat, and float has no radius and no bounds and no project"]),
        (lambda: own("balls:wider"), ["given the epsilon 0.2, and its radius is 0.4"]),
        (lambda: own("balls:broken"), ["balls:broken failed", "no ball today"]),
        (lambda: replace_stages("autoattack", part="apgd-ce", steps=2), ["autoattack knows Linf and L2"]),
        (lambda: replace_stages("fmn", scope="all", counts=False), ["fmn knows Linf and L2"]),
    ],
)
def test_what_cannot_keep_to_the_ball_is_refused_before_any_attack(make, parts: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        make()
    for part in parts:
        assert part in str(caught.value)


def replace_stages(attack: str, **options: object) -> Suite:
    return small_suite(stage("one", attack, **options), norm="balls:LeftHalf", epsilon="0.2")


@pytest.mark.parametrize("norm", ["balls:Boastful", "balls:Lost"])
def test_a_ball_that_does_not_hold_what_it_promises_is_refused(norm: str) -> None:
    with pytest.raises(ArgumentError, match=r"apgd moved an image by .*correct its project or its distances"):
        evaluate_model(MODEL, DATA, suite=own(norm), out="out")
    assert not any(each.finished for each in read_evaluations("out"))


def test_an_attack_of_the_users_own_gets_the_ball(here: Path) -> None:
    (here / "corners.py").write_text(
        "def corners(model, images, labels, *, threat):\n    return threat.project(images, 1 - images)\n"
    )
    table = "version = 1\nabout = 'corners'\n[[stage]]\nname = 'c'\nattack = 'corners:corners'\n"
    (here / "corners.toml").write_text(table)
    found = evaluate_model(MODEL, DATA, suite="corners.toml", norm="balls:LeftHalf", epsilon="0.3")
    assert found.stage("c").columns.broken.any()
