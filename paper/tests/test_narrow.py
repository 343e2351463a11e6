"""Networks that pool fewer values than the centers span dimensions."""

from typing import Any

from made_up_summaries import published, run, summary

from maxmahal.records.statistics import Rate
from maxmahal.settings import to_table
from maxmahal.train import load_settings
from paper import own
from paper.pages.narrow import narrow_runs, narrow_tables, silent_classes
from paper.summaries import RunSummary


def training(name: str, preset: str, *overrides: str, epochs: int = 2, **changes: Any) -> RunSummary:
    settings = to_table(load_settings(own("preset", preset), overrides))
    made = run(name, [60.0] * epochs, settings=settings, **changes)
    for entry in made.epochs:
        entry["train_loss"] = 21.25
    return made


NARROW = "model.backbone=resnet32"
MMC = training("cifar100-mmc-narrow", "cifar100-mmc", NARROW)


def cells(tables: list[str], name: str) -> list[str]:
    (line,) = (line for part in tables for line in part.splitlines() if line.startswith(f"| `{name}` "))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_only_finished_trainings_on_cifar100_with_too_few_values_are_meant() -> None:
    others = [
        training("tune-cifar100-mmc", "cifar100-mmc", NARROW),
        training("cifar100-mmc", "cifar100-mmc"),
        training("cifar10-mmc", "cifar10-mmc"),
        training("cifar100-center-narrow", "cifar100-center", NARROW, finished=False),
    ]
    assert narrow_runs(published(MMC, *others)) == [MMC]
    assert narrow_tables(published(*others)) == []


def test_the_bound_is_that_of_the_centers() -> None:
    tree = ("cifar100-trees-hierarchical", NARROW, "centers.norms=[8.0, 6.0]")
    runs = [
        MMC,
        training("cifar100-sce-narrow", "cifar100-sce", NARROW),
        training("cifar100-mmlda-narrow", "cifar100-mmlda", NARROW),
        training("cifar100-narrow-shared", *tree, "centers.subspaces=shared"),
        training("cifar100-narrow-orthogonal", *tree),
    ]
    tables = narrow_tables(published(*runs))
    assert cells(tables, "cifar100-mmc-narrow")[1:] == ["2", "0.01", "99", "17.7", "21.2", "40.0"]
    assert cells(tables, "cifar100-sce-narrow")[3:5] == ["–", "–"]
    assert cells(tables, "cifar100-mmlda-narrow")[3:5] == ["99", "–"]
    assert cells(tables, "cifar100-narrow-shared")[3:5] == ["19", "0.0"]
    assert cells(tables, "cifar100-narrow-orthogonal")[3:5] == ["99", "7.9"]  # 6²/2·35/80: the best 64 leave 35 of 80


def test_the_bound_is_of_the_loss_that_was_trained() -> None:
    runs = [
        training("doubled", "cifar100-mmc", NARROW, "loss.scale=2.0"),
        training("absolute", "cifar100-mmc", NARROW, "loss.form=absolute"),
        training("elastic", "cifar100-mmc", NARROW, "loss.name=emc"),
        training("attacked", "cifar100-at-mmc-short", NARROW),
        training("gone", "cifar100-trees-hierarchical", NARROW, "centers.tree=nowhere.toml"),
    ]
    tables = narrow_tables(published(*runs))
    bounds = {each.name: cells(tables, each.name)[4] for each in runs}
    assert bounds == {"doubled": "35.4", "absolute": "–", "elastic": "–", "attacked": "–", "gone": "–"}


def test_classes_without_a_correct_answer_and_columns_that_hold_anything() -> None:
    sce = training("cifar100-sce-narrow", "cifar100-sce", NARROW)
    short = training("cifar100-narrow-mmc", "cifar100-mmc", NARROW, epochs=1)
    wide = training("cifar100-sce", "cifar100-sce", "train.lr=0.2")
    results = published(
        MMC,
        sce,
        short,
        wide,
        summary(MMC.name, "strict", robust=0, data="cifar100", answered=Rate(65.0, 100)),
        summary(sce.name, "strict", robust=0, data="cifar100", answered=Rate(100.0, 100)),
        summary("cifar100-sce", "strict", clean=71.0, data="cifar100"),
    )
    tables = narrow_tables(results)
    assert silent_classes(results) == ["`cifar100-mmc-narrow` 35"]
    assert cells(tables, MMC.name)[7:] == ["65 of 100", "0.0 (≤ 0.18)", "not run"]
    assert cells(tables, sce.name)[7:] == ["100 of 100", "0.0 (≤ 0.18)", "71.0 (0.2)"]
    assert len(tables) == 2, "one table per length of training"
    assert len(cells(tables, short.name)) == 7
