"""A network of the user's own, from training to every command that loads it again."""

import shlex
import shutil
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from maxmahal import evaluate_model
from maxmahal.errors import ArgumentError
from maxmahal.evaluate import read_evaluations
from maxmahal.train import load_settings, train_model

pytestmark = pytest.mark.usefixtures("unchecked")
NET = """
from torch import nn
def net(image_shape, feature_dim):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, feature_dim))
def renamed(image_shape, feature_dim):
    return net(image_shape, feature_dim)
"""
SUITE = "version = 1\nabout = 'small'\n[[stage]]\nname = 'pgd'\nattack = 'pgd'\nsteps = 2\n"
PRESET = """
extends = "digits-mmc"
[data]
source = "{source}"
[model]
backbone = "cliownnet:net"
feature_dim = 8
[train]
epochs = 1
batch_size = 24
lr = 0.0001
"""
GRID = "[[model]]\nname = 'own'\npreset = 'mine.toml'\n[[evaluation]]\nsuite = 'small.toml'\nlimit = 6\n"


@pytest.fixture
def here(tiny_npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the user's network, a preset, a suite and a grid, to work in."""
    (tmp_path / "cliownnet.py").write_text(NET)
    (tmp_path / "mine.toml").write_text(PRESET.format(source=tiny_npz))
    (tmp_path / "small.toml").write_text(SUITE)
    (tmp_path / "grid.toml").write_text(GRID)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "cliownnet", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "run", "--suite", "small.toml", "--limit", "6", "--out", "eval"],
        ["density", "run", "--limit", "30"],
        ["uncertainty", "run", "--limit", "12"],
        ["tree", "run", "--classes", "2", "--out", "tree.toml"],
    ],
    ids=lambda words: words[0],
)
def test_a_run_of_ones_own_network_is_loaded_by_its_name(run, here: Path, words: list[str]) -> None:
    train_model(load_settings("mine.toml"), "run")
    run(*words).assert_refused("'cliownnet:net', and a file may not choose", "say --trust cliownnet:net")
    done = run(*words, "--trust", "cliownnet:net")
    assert done.code == 0, done.err
    assert "run" in done.out
    run(*words, "--trust", "cliownnet").assert_refused("--trust cliownnet is not of the form")


@pytest.mark.parametrize(
    "given",
    [
        ["cliownnet:net"],
        ["cliownnet:renamed"],  # the only one there is serves checkpoints that name another
        ["cliownnet:renamed", "cliownnet:net"],
    ],
    ids=["its own name", "another name", "two networks"],
)
def test_the_recorded_command_names_ones_own_network(run, here: Path, given: list[str]) -> None:
    train_model(load_settings("mine.toml"), "run")
    targets = ["run", "copy=run"]
    if len(given) == 2:
        train_model(load_settings("mine.toml", ["model.backbone=cliownnet:renamed"]), "second")
        targets = ["run", "second"]
    options = [word for name in given for word in ("--backbone", name)]  # as records of earlier versions call it
    first = run("evaluate", *targets, "--suite", "small.toml", "--limit", "6", "--out", "eval", *options)
    assert first.code == 0, first.err
    before = read_evaluations(here / "eval")
    words = shlex.split(before[0].environment["command"])
    assert [after for word, after in pairwise(words) if word == "--trust"] == given
    shutil.rmtree(here / "eval")
    again = run(*words[1:])
    assert again.code == 0, again.err
    after = read_evaluations(here / "eval")
    assert [(each.name, each.model_fingerprint, each.verdict.sentence) for each in after] == [
        (each.name, each.model_fingerprint, each.verdict.sentence) for each in before
    ]


def test_a_grid_of_ones_own_network_goes_through(run, here: Path) -> None:
    words = ["reproduce", "grid.toml", "--out", "out", "--device", "cpu"]
    done = run(*words)
    assert done.code == 0, done.out
    assert "own, small 6: done" in done.out
    assert "everything is done" in run(*words, "--dry-run").out


def test_a_pair_from_python_is_evaluated(here: Path) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.eye(3, 16))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return images.flatten(1) @ self.weight.T

    pixels = np.random.default_rng(0).integers(0, 256, (6, 1, 4, 4), dtype=np.uint8)
    labels = pixels.reshape(6, 16)[:, :3].argmax(axis=1)
    labels[-1] = 2
    pair = (torch.from_numpy(pixels) / 255, torch.from_numpy(labels))
    for number, data in enumerate([pair, torch.utils.data.TensorDataset(*pair)]):
        found = evaluate_model(Net().eval(), data=data, suite="small.toml", out=f"eval{number}")
        assert (found.data, found.samples, found.class_names) == ("arrays", 6, ("0", "1", "2"))
    few = (pair[0], pair[1] * 0)
    found = evaluate_model(Net().eval(), few, suite="small.toml")
    assert found.class_names == ("0", "1", "2"), "the model knows more classes than these images have"
    found = evaluate_model(Net().eval(), (*few, ["a", "b", "c"]), suite="small.toml")
    assert found.class_names == ("a", "b", "c")
    with pytest.raises(ArgumentError, match=r"3 logits per image and arrays has 2 classes; .* name all its classes"):
        evaluate_model(Net().eval(), (*few, ["a", "b"]), suite="small.toml")


@pytest.mark.parametrize(
    "exits",
    [
        "raise SystemExit(0)",
        "def net(image_shape, feature_dim): raise SystemExit(0)",
        "import sys\nfrom torch import nn\n"
        "class Net(nn.Linear):\n"
        "    def forward(self, images):\n"
        "        return sys.exit(0) if self.training else super().forward(images.flatten(1))\n"
        "def net(image_shape, feature_dim): return Net(64, feature_dim)\n",
    ],
    ids=["importing", "building", "training"],
)
def test_a_network_that_ends_the_program_is_an_error(run, here: Path, exits: str) -> None:
    (here / "cliownnet.py").write_text(exits)
    ended = run("train", "mine.toml", "--out", "run", "--device", "cpu")
    assert ended.code == 2
    assert "SystemExit: 0" in ended.err
    assert "Traceback" not in ended.err
