"""The outside check: what a peer breaks and ours does not is found, an image that is not allowed does not count."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from maxmahal.data import ImageData
from maxmahal.train import Settings, train_model
from paper.studies import outside_check
from paper.studies.outside_check import PEERS, attack_as_peer, autoattack, check, is_allowed, targeted_apgd

EPSILON = 8 / 255
KEY = 0.12
DARK, NEARLY, OTHER_NEARLY, BRIGHT, WRONG, OTHER_BRIGHT = range(6)
"""Images of one brightness each; below 0.5 is class 0. Their ids are ten times their places."""


class Planted(nn.Module):
    """The brightness decides, but for images whose first pixel is the key, which no attack would look for."""

    def forward(self, images: Tensor) -> Tensor:
        score = images.mean(dim=(1, 2, 3)) - 0.5
        key = (images[:, 0, 0, 0] - KEY).abs() < 1e-6
        score = torch.where(key, -score, score)
        return torch.stack([-score, score], dim=1)


@pytest.fixture
def data() -> ImageData:
    levels = torch.tensor([26, 126, 127, 230, 230, 230], dtype=torch.uint8)
    images = levels.view(-1, 1, 1, 1).expand(-1, 1, 4, 4).contiguous()
    return ImageData("planted", images, torch.tensor([0, 0, 0, 1, 0, 1]), ("0", "1"), 10 * torch.arange(6))


@pytest.fixture
def suite(tmp_path: Path) -> str:
    path = tmp_path / "ours.toml"
    stage = '[[stage]]\nname = "p"\ntitle = "P"\nattack = "pgd"\nsteps = 3\n'
    path.write_text(f'version = 4\nabout = "x"\nepsilon = "8/255"\n{stage}')
    return str(path)


def planting(model: nn.Module, images: Tensor, labels: Tensor, epsilon: float) -> Tensor:
    """Breaks the dark image by its key, and one of two that are nearly wrong; two of its images are not allowed."""
    assert not (model(images).argmax(dim=1) != labels).any(), "a wrong image needs no attack"
    dark, nearly, other, bright, other_bright = images.clone()
    dark[0, 0, 0] = KEY
    nearly += 0.9 * epsilon
    bright -= 0.9
    other_bright[0, 1, 1], other_bright[0, 0, 0] = torch.nan, KEY
    return torch.stack([dark, nearly, other, bright, other_bright])


def none(model: nn.Module, images: Tensor, labels: Tensor, epsilon: float) -> Tensor:
    return images


def test_a_sample_that_only_a_peer_breaks_is_listed(
    data: ImageData, suite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "record.json"
    monkeypatch.setitem(sys.modules, "adv_lib", SimpleNamespace(__version__="1.2"))
    record = check("planted", Planted().eval(), data, out, suite=suite, peers={"planting": planting, "none": none})
    assert json.loads(out.read_text()) == record
    assert record["libraries"]["adv_lib"] == "1.2"
    assert record["wrong"] == [10 * WRONG]
    assert record["attacks"]["planting"]["broken"] == [10 * DARK, 10 * NEARLY]
    assert record["attacks"]["planting"]["not_allowed"] == 2
    assert record["attacks"]["ours"]["broken"] == [10 * NEARLY, 10 * OTHER_NEARLY]
    assert list(record["attacks"]) == ["planting", "ours", "none"]
    found = record["comparison"]
    assert found["robust"] == {"planting": 3 / 6, "ours": 3 / 6, "none": 5 / 6}
    assert (found["clean"], found["robust_under_all"]) == (5 / 6, 2 / 6)
    assert found["peers"]["planting"] == {"both": 1, "only_ours": 1, "only_peer": [10 * DARK]}
    assert found["peers"]["none"] == {"both": 0, "only_ours": 2, "only_peer": []}
    said = capsys.readouterr().out
    assert "A bug of ours: only planting breaks the samples [0]." in said
    assert "only none" not in said
    assert [line.split()[1:] for line in said.splitlines() if line.startswith("planting  ")] == [
        ["50.00%", "1", "1", "1"]
    ]


def test_a_run_that_was_cut_short_keeps_what_it_has_and_goes_on(data: ImageData, suite: str, tmp_path: Path) -> None:
    out, calls = tmp_path / "record.json", []

    def counting(model: nn.Module, images: Tensor, labels: Tensor, epsilon: float) -> Tensor:
        calls.append("first")
        return images

    def failing(model: nn.Module, images: Tensor, labels: Tensor, epsilon: float) -> Tensor:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check("planted", Planted().eval(), data, out, suite=suite, peers={"first": counting, "second": failing})
    kept = json.loads(out.read_text())
    assert list(kept["attacks"]) == ["first", "ours"]
    assert kept["comparison"]["peers"]["first"]["only_ours"] == 2
    peers = {"first": counting, "second": planting}
    assert check("planted", Planted().eval(), data, out, suite=suite, peers=peers)["attacks"].keys() == {*peers, "ours"}
    assert calls == ["first"]
    check("planted", Planted().eval(), data, out, suite=suite, peers=peers, epsilon="4/255")
    check("planted", Planted().eval(), data.first(4), out, suite=suite, peers={"first": counting})
    assert calls == ["first"] * 3, "another threat or other images are another record"


@pytest.mark.parametrize(
    ("move", "level", "allowed"),
    [
        (EPSILON, 0.5, True),
        (EPSILON + 9e-7, 0.5, True),
        (EPSILON + 3e-6, 0.5, False),
        (-EPSILON - 3e-6, 0.5, False),
        (0.01, 0.999, False),
        (-0.01, 0.001, False),
        (float("nan"), 0.5, False),
    ],
)
def test_an_image_must_be_in_the_ball_and_in_the_range(move: float, level: float, allowed: bool) -> None:
    images = torch.full((2, 1, 2, 2), level)
    found = images.clone()
    found[1, 0, 1, 1] += move
    assert is_allowed(images, found, EPSILON).tolist() == [True, allowed]


class Linear(nn.Module):
    """Ten classes, one per pixel; the labelled pixel leads by ``lead``."""

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1)[:, :10]


def leading_by(lead: int) -> ImageData:
    images = torch.full((4, 1, 4, 4), 100, dtype=torch.uint8)
    labels = torch.tensor([3, 0, 7, 3])
    images.flatten(1)[torch.arange(4), labels] += lead
    return ImageData.from_arrays("leading", images, labels, [str(place) for place in range(10)])


@pytest.mark.parametrize(
    ("package", "attack", "lead"),
    [("pyautoattack", autoattack, 8), ("adv_lib", targeted_apgd, 15), ("adv_lib", targeted_apgd, 17)],
)
@pytest.mark.filterwarnings("ignore")  # of other libraries
def test_the_peers_break_what_can_be_broken(
    package: str, attack: Any, lead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of two pixels moves by 8 at most."""
    pytest.importorskip(package)
    for name in ("torchvision", "visdom", "distutils", "tqdm"):
        monkeypatch.setitem(sys.modules, name, None)  # not installed
    monkeypatch.setattr(outside_check, "STEPS", 20)
    monkeypatch.setattr(outside_check, "BATCH", 3)
    state = torch.get_rng_state()
    found = attack_as_peer(attack, Linear(), leading_by(lead), EPSILON)
    assert found == {"broken": [0, 1, 2, 3] if lead <= 16 else [], "not_allowed": 0}
    assert torch.equal(torch.get_rng_state(), state)


def test_the_command_line(
    tiny_settings: Callable[..., Settings], tiny_npz: Path, suite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_model(tiny_settings("digits-mmc", "train.epochs=1"), tmp_path / "run")
    for title in [*PEERS]:
        monkeypatch.delitem(PEERS, title)
    monkeypatch.setitem(PEERS, "none", none)
    words = [str(tmp_path / "run"), "--data", str(tiny_npz), "--limit", "12", "--suite", suite, "--epsilon", "0.05"]
    monkeypatch.setattr(sys, "argv", ["outside_check", *words, "--out", str(tmp_path / "record.json")])
    outside_check.main()
    record = json.loads((tmp_path / "record.json").read_text())
    assert (record["model"], record["images"], record["threat"], record["suite"]) == ("run", 12, "Linf 0.05", "ours 4")
