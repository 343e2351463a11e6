"""Model cards: what a checkpoint is, how it was made, and no more of its robustness than was measured."""

import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from made_up_summaries import published, run, stage, summary
from torch import nn

import maxmahal
from maxmahal.data import ImageData, load_dataset
from maxmahal.records.statistics import Rate
from maxmahal.train.checkpoint import save_tensors
from paper.pages.cards import card, index
from paper.pages.models import ZOO
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
    shown = facts(card(published(evaluated, TRAINED), NAME))
    assert shown["network"] == "resnet32, 256 features, 480,144 parameters"
    assert shown["centers"] == "max-mahalanobis, norm 10.0, in 256 dimensions"
    assert shown["trained on"] == "49,000 of 50,000 images, 1,000 held out for validation"
    assert shown["checkpoint"] == "last, epoch 80 of 80"
    assert shown["seed"] == "3; 1 training of this kind"
    others = [replace(TRAINED, name=f"{MODEL}-seed{seed}") for seed in (0, 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ZOO, NAME, others[0].name)
        assert facts(card(published(*others), NAME))["seed"] == "3; 2 trainings of this kind"
    assert shown["precision"] == "bfloat16"
    assert shown["time"] == "1 min 40 s on NVIDIA H200, shared by 4 trainings"
    assert shown["trained by"] == "maxmahal 0.1.0, torch 2.11, commit abc"
    assert shown["measured by"] == "maxmahal 0.1.0, torch 2.11, commit def-dirty"


def test_defaults_are_on_no_card() -> None:
    tree = {
        "name": "hierarchical",
        "length": 0.0,
        "norms": [8.0, 6.0],
        "rotation_seed": -1,
        "shuffle_seed": 3,
        "tree": "",
    }
    table = {**SETTINGS, "centers": {**tree, "subspaces": "orthogonal"}, "loss": {"name": "mmc", "form": ""}}
    shown = facts(card(published(replace(TRAINED, settings=table)), NAME))
    assert (
        shown["centers"] == "hierarchical, norms 8.0 and 6.0, shuffle_seed 3, subspaces orthogonal, in 256 dimensions"
    )
    assert shown["loss"] == "mmc"
    drawn = {**SETTINGS, "centers": {"name": "random", "norm": 10.0, "seed": 0}}
    shown = facts(card(published(replace(TRAINED, settings=drawn)), NAME))
    assert shown["centers"] == "random, norm 10.0, seed 0, in 256 dimensions", "the draw is shown"


def test_a_budget_is_given_in_epochs() -> None:
    about = {**SETTINGS, "about": "Adversarial training of MMC-10, a large budget on one GPU"}
    assert "training of MMC-10, 80 epochs\n" in card(published(replace(TRAINED, settings=about)), NAME)


def test_attacks_without_gradients_and_distances_are_on_the_card() -> None:
    few = stage("spsa-un-8", 17.0, 1000, kind="spsa", right=None)
    far = stage("cw-tar", 0.75, 500, right=None, accuracy=Rate(41.0, 500))
    text = card(published(measured("paper-table4", more=(few, far))), NAME)
    assert "| SPSA un 8, paper's protocol, first 1,000 images | 69.6 | 17.0 % [14.7, 19.5] |" in text
    assert "C&W tar (L2), paper's protocol, first 500 images | 1.55 | 0.75 (41 of 500 not broken) |" in text
    assert "SPSA" not in card(published(measured()), NAME)


def test_what_does_not_apply_or_is_not_known_is_not_made_up() -> None:
    plain = {**SETTINGS, "loss": {"name": "sce"}, "data": {"source": "cifar10", "validation": 0}}
    shown = facts(card(published(replace(TRAINED, settings=plain, sharing=1, device="cpu", gpu="", result={})), NAME))
    assert "centers" not in shown
    assert shown["trained on"] == "50,000 images"
    assert shown["precision"] == "float32"
    assert shown["time"] == "1 min 40 s on cpu"
    assert shown["trained by"] == "unknown"
    assert shown["measured by"] == "unknown"


@pytest.mark.parametrize(
    ("trust", "said"),
    [
        ("held", "found no sign"),
        ("mended", "found signs and answered them with added attacks"),
        ("unresolved", "left signs open"),
        ("unchecked", "has no diagnostics"),
    ],
)
def test_a_worst_case_says_whether_false_robustness_was_looked_for(trust: str, said: str) -> None:
    text = card(published(measured(trust=trust)), NAME)
    assert f"False robustness: `autoattack` {said}." in text
    assert "| worst case of `autoattack` | – | 44.0 % [41.8, 46.2] |" in text
    assert "| worst case of `strict` | – | not run |" in text


def test_what_was_not_measured_is_not_claimed() -> None:
    assert "worst cases at larger epsilons and other norms were not measured" in card(published(measured()), NAME)
    other = measured("strict", norm="L2", epsilon="0.5", radius=0.5)
    assert "it was also measured at L2 0.5" in card(published(measured(), other), NAME)
    assert "Its robustness was not measured" in card(published(), NAME)
    weak = summary("cifar10-mmc", "strict", robust=0.5)
    assert "It is **not robust**: the worst case at Linf 8/255 is 0.5 %" in card(published(weak), "cifar10-mmc")


def test_an_adversarial_training_shows_its_loss_beside_a_constant_models() -> None:
    settings = {**SETTINGS, "loss": {"name": "sce"}, "method": {"name": "adversarial"}}
    trained = replace(TRAINED, settings=settings)
    trained.epochs[0]["train_loss"] = 1.3
    assert facts(card(published(trained), NAME))["training loss"] == "1.3 at the end; 2.3 for a constant model"
    assert "training loss" not in facts(card(published(replace(trained, settings=SETTINGS)), NAME))


def test_the_file_is_named_by_its_digest(tmp_path: Path) -> None:
    save_tensors(tmp_path / "x", {"a": torch.ones(2)}, {})
    shown = facts(card(published(), NAME, tmp_path / "x"))
    assert shown["SHA-256 of the file"] == hashlib.sha256((tmp_path / "x").read_bytes()).hexdigest()
    assert "weights stored in" not in shown


def test_weights_in_half_precision_are_named(tmp_path: Path) -> None:
    save_tensors(tmp_path / "x", {"a": torch.ones(2), "b": torch.ones(2).half()}, {})
    shown = facts(card(published(), NAME, tmp_path / "x"))
    assert shown["weights stored in"].startswith("half precision: kernels and matrices as float16")


@pytest.mark.parametrize("name", list(ZOO))
def test_every_card_can_be_written_with_nothing_measured(name: str) -> None:
    text = card(published(), name)
    assert text.startswith(f"# {name}\n")
    assert f'maxmahal.load("{name}")' in text


def test_the_index_names_data_and_numbers() -> None:
    text = index(published(measured()), [NAME, "cifar100-sce"])
    assert f"| [{NAME}]({NAME}.md) | CIFAR-10 |" in text
    assert "| 44.0 % [41.8, 46.2] | not run |" in text
    assert text.startswith("# Trained models\n\nModels of CIFAR-10 and CIFAR-100 by name")


def test_the_lines_of_a_card_run_unchanged(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """On digits in the place of CIFAR-10, and a small network in the place of the zoo's."""
    digits = load_dataset("digits", "test").first(4)
    monkeypatch.setattr("maxmahal.data.load_dataset", lambda name, split: given(name, split, digits))
    head = maxmahal.SCE(num_classes=10, feature_dim=digits.images[0].numel())
    network = maxmahal.Classifier(nn.Flatten(), head).eval()
    monkeypatch.setattr(maxmahal, "load", lambda name: network)
    text = card(published(), NAME)
    assert "    maxmahal data fetch cifar10\n" in text
    exec(text.partition("```python\n")[2].partition("```")[0], {})
    assert 0 <= float(capsys.readouterr().out) <= 1


def given(name: str, split: str, data: ImageData) -> ImageData:
    assert (name, split) == ("cifar10", "test")
    return data
