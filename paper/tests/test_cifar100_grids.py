"""CIFAR-100's grids, presets and suite: the paper's columns, the same tuning for each loss, one budget for all."""

from collections import defaultdict
from typing import Any

import pytest

from maxmahal.evaluate.suite import load_suite
from maxmahal.report.tables import paper_number
from maxmahal.reproduce import load_grid
from maxmahal.settings import to_table
from maxmahal.train import load_settings
from paper import own
from paper.pages.models import ADVERSARIAL_CIFAR100, TABLE_4, TABLE_5_CIFAR100, ZOO

pytestmark = pytest.mark.usefixtures("unchecked")

LOSSES = ("sce", "mmc", "hm")
OWN = {"cifar100-mmc-rand", "cifar100-hm"}  # rows that the paper's table does not have


@pytest.mark.parametrize(
    ("grid", "suite", "table"),
    [("table4", "paper-table4", "Table 4"), ("table5-cifar100", "paper-table1", "Table 5")],
)
def test_every_cell_has_a_number_of_the_paper(grid: str, suite: str, table: str) -> None:
    for model in load_grid(own("grid", grid)).models:
        for stage in load_suite(suite).stages:
            numbers = paper_number(model.settings().table, stage.name)
            found = any(number.source.startswith(f"{table}, ") for number in numbers)
            assert found == (model.name not in OWN), (model.name, stage.name)


def test_the_suite_of_table_4_is_the_papers_protocol() -> None:
    paper, part = load_suite("paper"), load_suite("paper-table4")
    known = {stage.name: stage for stage in paper.stages}
    assert all(stage == known[stage.name] for stage in part.stages)
    assert [stage.name for stage in part.stages] == [
        "pgd10-tar-8",
        "pgd10-un-8",
        "spsa-tar-8",
        "spsa-un-8",
        "cw-tar",
        "cw-un",
    ]
    assert [stage.limit for stage in part.stages] == [None, None, 1000, 1000, 500, 500]
    assert (part.epsilon, part.chunk) == (paper.epsilon, paper.chunk)


def test_grids_train_what_the_pages_and_the_zoo_show() -> None:
    trained = {
        grid: {model.name for model in load_grid(own("grid", grid)).models} for grid in ("table4", "table5-cifar100")
    }
    assert trained == {"table4": set(TABLE_4), "table5-cifar100": set(TABLE_5_CIFAR100)}
    adversarial = {model.name for model in load_grid(own("grid", "adversarial-cifar100")).models}
    assert adversarial == set(ADVERSARIAL_CIFAR100)
    assert {model for name, model in ZOO.items() if "cifar100" in name} <= trained["table4"] | adversarial


@pytest.mark.parametrize("name", ["table4", "table5-cifar100"])
def test_models_of_a_table_are_trained_alike(name: str) -> None:
    for model in load_grid(own("grid", name)).models:
        settings, preset = model.settings(), load_settings(model.preset or model.name)
        assert (settings.data.source, settings.train.epochs) == ("cifar100", 200)
        assert settings.train.batch_size == (256 if "110" in settings.model.backbone else 128)
        assert (settings.loss, settings.centers, settings.model) == (preset.loss, preset.centers, preset.model)
        assert preset.train.batch_size == 50, "the presets stay with the paper's code"


@pytest.mark.parametrize("grid", ["tuning-adversarial-cifar100", "tuning-cifar100"])
def test_every_loss_gets_the_same_trials(grid: str) -> None:
    trials: dict[Any, list[Any]] = defaultdict(list)
    for model in load_grid(own("grid", grid)).models:
        settings = model.settings()
        assert settings.data.source == "cifar100"
        assert settings.data.validation > 0
        assert model.name.startswith("tune-cifar100-")
        trials[model.preset].append((model.set, settings.train))
    assert len(trials) == (3 if "adversarial" in grid else 4)
    first, *others = trials.values()
    assert len(first) == (3 if "adversarial" in grid else 4)
    assert all([overrides for overrides, _ in other] == [overrides for overrides, _ in first] for other in others)
    assert all([train for _, train in other] == [train for _, train in first] for other in others)


@pytest.mark.parametrize(("budget", "epochs"), [("short", 25), ("long", 40)])
def test_adversarial_training_of_three_losses_differs_in_the_loss_alone(budget: str, epochs: int) -> None:
    found = {}
    for loss in LOSSES:
        settings = load_settings(own("preset", f"cifar100-at-{loss}-{budget}"))
        assert (settings.train.epochs, settings.train.batch_size, settings.train.weight_decay) == (epochs, 128, 5e-4)
        assert (settings.train.schedule, settings.train.warmup, settings.train.decay) == ("linear", 0.1, "weights")
        assert settings.table == ""
        table = to_table(settings)
        table["train"].pop("lr")  # tuned, over the same grid
        found[loss] = {key: table[key] for key in ("data", "method", "model", "train")}
    assert found["sce"] == found["mmc"] == found["hm"]
    method, data = found["sce"]["method"], found["sce"]["data"]
    assert (method["name"], method["steps"], method["epsilon"], method["step_size"]) == (
        "adversarial",
        10,
        "8/255",
        "2/255",
    )
    assert (method["targeted"], method["label_source"]) == (False, "true")
    assert (data["source"], data["validation"]) == ("cifar100", 1000)
    assert (
        load_settings(own("preset", f"cifar100-at-hm-{budget}")).centers
        == load_settings("cifar100-mmc-hierarchical").centers
    )
    assert load_settings(own("preset", f"cifar100-at-mmc-{budget}")).centers == load_settings("cifar100-mmc").centers
