"""Model cards: what a checkpoint is, how it was made, and no more of its robustness than was measured."""

import re
from dataclasses import replace
from typing import Any

import pytest
from made_up_summaries import run, shelf, stage, summary
from torch import nn

import maxmahal
from maxmahal.data import ImageData, load_dataset
from maxmahal.records.statistics import Rate
from paper.pages import card
from paper.summaries import Summary

MODEL, NAME = "cifar10-at-un-mmc", "cifar10-at-mmc"
SETTINGS: dict[str, Any] = {
    "train": {"epochs": 80, "batch_size": 256, "seed": 3},
    "model": {"backbone": "resnet32", "feature_dim": 256},
    "loss": {"name": "mmc"},
    "centers": {"name": "max-mahalanobis", "norm": 10.0},
    "data": {"source": "cifar10", "validation": 1000},
    "cuda": {"precision": "bfloat16"},
    "cpu": {"precision": "float32"},
}
CARD = {"settings": SETTINGS, "epoch": 80, "table": "", "parameters": 480144}
TRAINED = run(
    MODEL,
    [30.0],
    100,
    settings=SETTINGS,
    sharing=4,
    result={"maxmahal": "0.1.0", "torch": "2.11", "commit": "abc"},
)


def measured(suite: str = "autoattack", **changes: Any) -> Summary:
    return replace(summary(MODEL, suite, robust=44.0, **changes), model=CARD)


def facts(text: str) -> dict[str, str]:
    return {found[1]: found[2] for found in re.finditer(r"^\| ([^|]+) \| ([^|]*) \|$", text, re.MULTILINE)}


def test_a_card_says_what_the_model_is_and_how_it_was_made() -> None:
    evaluated = measured(environment={"versions": {"maxmahal": "0.1.0", "torch": "2.11"}, "commit": "def-dirty"})
    told = facts(card(shelf(evaluated, TRAINED), NAME))
    assert told["network"] == "resnet32, 256 features, 480,144 parameters"
    assert told["centers"] == "max-mahalanobis, norm 10.0, in 256 dimensions"
    assert told["trained on"] == "49,000 of 50,000 images, 1,000 held out for validation"
    assert told["checkpoint"] == "last, epoch 80 of 80"
    assert told["seed"].startswith("3; one training")
    assert told["precision"] == "bfloat16"
    assert told["time"] == "1 min 40 s on NVIDIA H200, shared by 4 trainings"
    assert told["trained by"] == "maxmahal 0.1.0, torch 2.11, commit abc"
    assert told["measured by"] == "maxmahal 0.1.0, torch 2.11, commit def-dirty"


def test_what_was_left_as_it_is_stands_on_no_card() -> None:
    tree = {
        "name": "hierarchical",
        "length": 0.0,
        "norms": [8.0, 6.0],
        "rotation_seed": -1,
        "shuffle_seed": 3,
        "tree": "",
    }
    table = {**SETTINGS, "centers": {**tree, "subspaces": "orthogonal"}, "loss": {"name": "mmc", "form": ""}}
    told = facts(card(shelf(replace(TRAINED, settings=table)), NAME))
    assert told["centers"] == "hierarchical, norms 8.0 and 6.0, shuffle_seed 3, subspaces orthogonal, in 256 dimensions"
    assert told["loss"] == "mmc"
    drawn = {**SETTINGS, "centers": {"name": "random", "norm": 10.0, "seed": 0}}
    told = facts(card(shelf(replace(TRAINED, settings=drawn)), NAME))
    assert told["centers"] == "random, norm 10.0, seed 0, in 256 dimensions", "the draw is told"


def test_a_budget_is_told_in_epochs() -> None:
    about = {**SETTINGS, "about": "Adversarial training of MMC-10, a large budget on one GPU"}
    assert "training of MMC-10, 80 epochs\n" in card(shelf(replace(TRAINED, settings=about)), NAME)


def test_attacks_without_gradients_and_distances_stand_on_the_card() -> None:
    few = stage("spsa-un-8", 17.0, 1000, kind="spsa", right=None)
    far = stage("cw-tar", 0.75, 500, right=None, accuracy=Rate(41.0, 500))
    text = card(shelf(measured("paper-table4", more=(few, far))), NAME)
    assert "| SPSA un 8, paper's protocol, first 1,000 images | 69.6 | 17.0 % [14.7, 19.5] |" in text
    assert "mean distance, first 500 images | 1.55 | 0.75 (41 of 500 not turned) |" in text
    assert "SPSA" not in card(shelf(measured()), NAME)


def test_what_does_not_apply_or_is_not_known_is_not_made_up() -> None:
    plain = {**SETTINGS, "loss": {"name": "sce"}, "data": {"source": "cifar10", "validation": 0}}
    told = facts(card(shelf(replace(TRAINED, settings=plain, sharing=1, device="cpu", gpu="", result={})), NAME))
    assert "centers" not in told
    assert told["trained on"] == "50,000 images"
    assert told["precision"] == "float32"
    assert told["time"] == "1 min 40 s on cpu"
    assert told["trained by"] == "unknown"
    assert told["measured by"] == "not run"


def test_diagnostics_that_were_not_run_are_called_so() -> None:
    sentence = (
        "Robust accuracy <= 0.74 % at Linf 8/255; nobody looked for false robustness, so take it as an upper bound."
    )
    text = card(shelf(measured(trust="unchecked", sentence=sentence)), NAME)
    assert "nobody" not in text
    assert (
        "`autoattack`: Robust accuracy ≤ 0.74 % at Linf 8/255; the diagnostics for false robustness were not run"
        in text
    )
    assert "were not run" not in card(shelf(measured()), NAME)


def test_larger_perturbations_are_as_unknown_as_they_are() -> None:
    large = measured("paper-table1", stages={"pgd50-un-16": 30.0})
    assert "rows of the paper's protocol at 16/256" in card(shelf(measured(), large), NAME)
    assert "under larger perturbations and other norms was not measured" in card(shelf(measured()), NAME)
    other = measured("strict", norm="L2", epsilon="0.5", radius=0.5)
    assert "also measured at L2 0.5, and nowhere else" in card(shelf(measured(), other), NAME)


def test_rows_of_the_papers_protocol_say_what_they_count() -> None:
    large = measured("paper-table1", stages={"pgd10-un-8": 30.0})
    assert "turned right as right" in card(shelf(large), NAME)
    assert "turned right" not in card(shelf(measured()), NAME)


def test_the_lines_of_a_card_run_as_they_stand(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On digits in the place of CIFAR-10, and a small network in the place of the zoo's."""
    digits = load_dataset("digits", "test").first(4)
    monkeypatch.setattr("maxmahal.data.load_dataset", lambda name, split: given(name, split, digits))
    head = maxmahal.SCE(num_classes=10, feature_dim=digits.images[0].numel())
    network = maxmahal.Classifier(nn.Flatten(), head).eval()
    monkeypatch.setattr(maxmahal, "load", lambda name: network)
    text = card(shelf(), NAME)
    assert "    maxmahal data fetch cifar10\n" in text
    exec(text.partition("```python\n")[2].partition("```")[0], {})
    assert 0 <= float(capsys.readouterr().out) <= 1


def given(name: str, split: str, data: ImageData) -> ImageData:
    assert (name, split) == ("cifar10", "test")
    return data
