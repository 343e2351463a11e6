"""What trainings cost and how their settings were chosen, from made-up runs."""

import math
from dataclasses import replace
from typing import Any

import pytest
from made_up_summaries import published, run, summary

from maxmahal.settings import to_table
from maxmahal.train import load_settings
from paper import own
from paper.pages.pages import training_page
from paper.pages.tables import other_models
from paper.pages.training import (
    constant_loss,
    edge_of,
    first_epoch,
    medians,
    one_weight_decay,
    tuning_table,
    untuned,
    why_not_timed,
)
from paper.summaries import RunSummary

SCE, MMC = "cifar10-sce", "cifar10-mmc"


def cells(table: str, row: str) -> list[str]:
    (line,) = [line for line in table.splitlines() if line.startswith(f"| {row} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def trial(
    name: str, clean: float, pgd: float | None = None, batch: int = 256, lr: float = 0.1, **changes: Any
) -> RunSummary:
    decay = changes.pop("weight_decay", 2e-4)
    centers = changes.pop("centers", "max-mahalanobis")
    found = run(f"tune-{name}", [20.0], **changes)
    found.epochs[0].update({"validation_accuracy": clean} | ({} if pgd is None else {"validation_pgd10": pgd}))
    train = {"epochs": 1, "batch_size": batch, "lr": lr, "weight_decay": decay}
    tables = {"loss": {"name": name.partition("-")[0]}, "train": train, "centers": {"name": centers}}
    return replace(found, settings={**found.settings, **tables})


def test_the_cost_is_of_finished_trainings() -> None:
    both = published(run(SCE, [20.0, 8.5], 30), trial("sce-a", 0.8), run(MMC, [20.0, 10.0], finished=False))
    page = training_page(both, [])
    cost = page[page.index("## Cost") : page.index("## Tuning")]
    assert cells(cost, SCE) == [SCE, "2", "50", "NVIDIA H200", "30.00 s", "1 min 00 s", "8.5"]
    assert "tune-" not in cost
    assert f"| {MMC} |" not in cost
    assert f"Not finished: `{MMC}` (2 epochs)." in cost
    shared = training_page(published(run(SCE, [20.0], gpu="", sharing=4)), [])
    assert cells(shared, SCE)[3] == "cuda:0, shared by 4"


def test_models_with_a_page_of_their_own_are_not_repeated() -> None:
    names = ("clock-sce-12-seed0", "clock-tune-sce-lr0.1-wd5e-4")
    runs = [run(names[0], [20.0]), run(names[1], [20.0], finished=False), run(SCE, [8.5])]
    results = published(*runs, summary(names[0], "strict"), summary("trees-mmc", "strict"), summary("other", "strict"))
    assert "clock-" not in training_page(results, [])
    assert other_models(results, "cifar10", set()) == ["other"]


def test_the_best_trials_are_marked() -> None:
    trials = [
        trial("mmc-a", 0.359, 0.2685),
        trial("mmc-b", 0.363, 0.2685),  # ties by validation accuracy
        trial("mmc-c", 0.5, 0.2675),
        trial("mmc-d", 0.9, 0.9, finished=False),
        trial("sce-a", 0.3, 0.3),
        trial("mmc-e", 0.86, batch=128),  # without attack, by batch size
        trial("mmc-f", 0.80, batch=512),
        trial("mmc-g", 0.75, batch=512),
        trial("mmc-h", 0.99, batch=512, finished=False),
    ]
    table = tuning_table(published(*trials))
    best = {each.name for each in trials if cells(table, each.name)[-1] == "best"}
    assert best == {"tune-mmc-b", "tune-sce-a", "tune-mmc-e", "tune-mmc-f"}
    assert cells(table, "tune-mmc-c")[-3:-1] == ["50.0", "26.8"]
    assert tuning_table(published()) == ""


def test_used_trials_say_whether_they_are_the_best_and_at_an_edge() -> None:
    trials = [
        trial("mmc-a", 0.80, batch=128, lr=0.02),
        trial("mmc-b", 0.86, batch=128, lr=0.05),
        trial("mmc-c", 0.85, batch=128, lr=0.1),
        trial("mmc-d", 0.88, batch=50, lr=0.01),
        trial("sce-a", 0.85, batch=128, lr=0.05),
        trial("sce-b", 0.86, batch=128, lr=0.1),
    ]
    used = [replace(trials[place], name=name) for place, name in ((1, MMC), (5, SCE))]
    table = tuning_table(published(*trials, *used))
    wanted = ["", "used", "", "best", "", "used, highest rate tried"]
    assert [cells(table, each.name)[-1] for each in trials] == wanted
    worse = tuning_table(
        published(*trials, *used, replace(trials[2], name="other"), replace(trials[2], name="another"))
    )
    assert cells(worse, "tune-mmc-c")[-1] == "used by other and 1 more, not the best"
    assert cells(worse, "tune-mmc-b")[-1] == f"used by {MMC}"
    elsewhere = tuning_table(published(*trials, replace(trials[2], name=f"{MMC}-lr0.1")))
    assert cells(elsewhere, "tune-mmc-c")[-1] == "", "a training at another rate is no use of a trial"


def test_hierarchical_centers_have_trials_of_their_own() -> None:
    table = tuning_table(published(trial("mmc-a", 0.2, 0.1), trial("mmc-b", 0.1, 0.09, centers="hierarchical")))
    assert [cells(table, f"tune-mmc-{end}")[-1] for end in "ab"] == ["best", "best"]
    assert cells(table, "tune-mmc-b")[3] == "mmc, hierarchical"


def test_a_weight_decay_that_was_not_tuned_is_named() -> None:
    same = published(trial("a", 0.8, batch=128), trial("b", 0.8, batch=128))
    assert one_weight_decay(same) == ["resnet32 on CIFAR-10 (0.0002)"]
    assert one_weight_decay(published(*same.runs, trial("c", 0.8, weight_decay=5e-4))) == []
    assert one_weight_decay(published(trial("a", 0.8, 0.4))) == [], "with attack they were"


def test_models_without_trials_of_their_own_are_named() -> None:
    mmc = replace(trial("mmc-a", 0.8), name=MMC)
    rand = replace(trial("mmc-b", 0.8, centers="random"), name="cifar10-mmc-rand")
    models = [MMC, rand.name]
    assert untuned(published(mmc, rand, trial("mmc-c", 0.8)), models) == ["`cifar10-mmc-rand`"]
    assert untuned(published(mmc, rand, trial("mmc-c", 0.8), trial("mmc-d", 0.8, centers="random")), models) == []


@pytest.mark.parametrize(
    ("value", "tried", "edge"),
    [
        (0.2, [0.1, 0.2], "highest"),
        (0.1, [0.2, 0.1], "lowest"),
        (0.2, [0.1, 0.2, 0.4], None),
        (0.3, [0.1, 0.2], "highest"),  # beyond what was tried
        (0.2, [0.2, 0.2], None),  # twice the same is no choice
        (0.2, [], None),
    ],
)
def test_a_choice_at_an_end_of_what_was_tried(value: float, tried: list[float], edge: str | None) -> None:
    assert edge_of(value, tried) == edge


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"sharing": 2}, "not every training was alone on its GPU"),
        ({"gpu": ""}, "on which GPU the training ran is not known"),
        ({"gpu": "NVIDIA A100"}, "the devices or networks differ"),
        ({"settings": {"train": {"batch_size": 128}}}, "the batches differ"),
    ],
)
def test_times_are_compared_of_equal_machines(changes: dict[str, Any], why: str) -> None:
    assert why_not_timed([run(SCE, [9.0]), run(MMC, [9.0], **changes)]) == why


def test_medians_look_two_epochs_to_either_side() -> None:
    assert medians([9.0, 1.0, 8.0, 7.0, 6.0, 0.0]) == [9.0, 8.0, 7.0, 6.0, 6.0, 0.0]


def test_the_first_epoch_of_a_level() -> None:
    falls = run(SCE, [40.0] * 3 + [14.0] * 5)
    assert [first_epoch(falls, level) for level in (40.0, 15.0, 10.0)] == [1, 4, None]
    assert first_epoch(falls, 15.0, last=3) is None
    assert first_epoch(run(SCE, [15.0] * 3), 15.0) == 1  # 100 * (1 - 0.85) > 15


def test_the_loss_of_a_constant_model() -> None:
    def of(preset: str, **loss: Any) -> float | None:
        settings = to_table(load_settings(own("preset", preset)))
        settings["loss"] = {**settings["loss"], **loss}
        return constant_loss(run("x", [9.0], settings=settings))

    assert of("cifar100-at-sce-long") == pytest.approx(math.log(100))
    assert of("cifar100-at-mmc-long") == pytest.approx(50)  # C²/2
    assert of("cifar10-mmc", scale=2.0) is None
    assert of("cifar10-mmlda") is None
