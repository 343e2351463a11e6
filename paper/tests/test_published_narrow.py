"""The section about networks that pool fewer values than the centers span dimensions."""

from typing import Any

from made_up_summaries import run, shelf, summary

from maxmahal.records.statistics import Rate
from maxmahal.settings import to_table
from maxmahal.train import load_settings
from paper import own
from paper.pages.narrow import narrow_models, narrow_section
from paper.summaries import RunSummary


def training(name: str, preset: str, *overrides: str, epochs: int = 2, **changes: Any) -> RunSummary:
    settings = to_table(load_settings(own("preset", preset), overrides))
    made = run(name, [60.0] * epochs, settings=settings, **changes)
    for entry in made.epochs:
        entry["train_loss"] = 21.25
    return made


NARROW = "model.backbone=resnet32"
MMC = training("cifar100-mmc-narrow", "cifar100-mmc", NARROW)


def cells(section: list[str], name: str) -> list[str]:
    (line,) = (line for part in section for line in part.splitlines() if line.startswith(f"| `{name}` "))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_only_finished_trainings_on_cifar100_with_too_few_values_are_meant() -> None:
    others = [
        training("tune-cifar100-mmc", "cifar100-mmc", NARROW),
        training("cifar100-mmc", "cifar100-mmc"),
        training("cifar10-mmc", "cifar10-mmc"),
        training("cifar100-center-narrow", "cifar100-center", NARROW, finished=False),
    ]
    assert narrow_models(shelf(MMC, *others)) == ["cifar100-mmc-narrow"]
    assert narrow_section(shelf(*others)) == []


def test_the_floor_is_that_of_the_centers() -> None:
    tree = ("cifar100-trees-hierarchical", NARROW, "centers.norms=[8.0, 6.0]")
    runs = [
        MMC,
        training("cifar100-sce-narrow", "cifar100-sce", NARROW),
        training("cifar100-mmlda-narrow", "cifar100-mmlda", NARROW),
        training("cifar100-narrow-shared", *tree, "centers.subspaces=shared"),
        training("cifar100-narrow-orthogonal", *tree),
    ]
    section = narrow_section(shelf(*runs))
    assert cells(section, "cifar100-mmc-narrow")[1:] == ["2", "0.01", "99", "17.7", "21.2", "40.0"]
    assert cells(section, "cifar100-sce-narrow")[3:5] == ["–", "–"]
    assert cells(section, "cifar100-mmlda-narrow")[3:5] == ["99", "–"]
    assert cells(section, "cifar100-narrow-shared")[3:5] == ["19", "0.0"]
    assert cells(section, "cifar100-narrow-orthogonal")[3:5] == ["99", "7.9"]  # 6²/2·35/80: the best 64 leave 35 of 80


def test_the_floor_is_of_the_loss_that_was_trained() -> None:
    runs = [
        training("doubled", "cifar100-mmc", NARROW, "loss.scale=2.0"),
        training("absolute", "cifar100-mmc", NARROW, "loss.form=absolute"),
        training("elastic", "cifar100-mmc", NARROW, "loss.name=emc"),
        training("attacked", "cifar100-at-mmc-short", NARROW),
        training("gone", "cifar100-trees-hierarchical", NARROW, "centers.tree=nowhere.toml"),
    ]
    section = narrow_section(shelf(*runs))
    floors = {each.name: cells(section, each.name)[4] for each in runs}
    assert floors == {"doubled": "35.4", "absolute": "–", "elastic": "–", "attacked": "–", "gone": "–"}


def test_classes_without_a_right_answer_are_told() -> None:
    sce = training("cifar100-sce-narrow", "cifar100-sce", NARROW)
    center = training("cifar100-center-narrow", "cifar100-center", NARROW)
    seen = [
        summary(MMC.name, "strict", robust=0, data="cifar100", answered=Rate(65.0, 100)),
        summary(sce.name, "strict", robust=0, data="cifar100", answered=Rate(100.0, 100)),
        summary("cifar100-sce", "strict", clean=71.0, data="cifar100"),
    ]
    section = narrow_section(shelf(MMC, sce, center, *seen))
    assert section[2].startswith("Of the 2 of these models whose answers were recorded class by class, 1 get no test")
    assert section[2].endswith("some classes: `cifar100-mmc-narrow` 35 of 100.")
    assert cells(section, MMC.name)[7:] == ["65 of 100", "≤ 0.18", "not run"]
    assert cells(section, sce.name)[7:] == ["100 of 100", "≤ 0.18", "71.0"]
    assert cells(section, center.name)[7:] == ["not run"] * 3


def test_what_else_sets_the_wider_network_apart_is_told() -> None:
    narrow = training("cifar100-mmc-narrow", "cifar100-mmc", NARROW, "train.lr=0.02")
    wide = training("cifar100-mmc", "cifar100-mmc", "train.lr=0.1", result={"last": {"test_accuracy": 0.6881}})
    trials = [training(f"tune-{rate}", "cifar100-mmc", NARROW, f"train.lr={rate}") for rate in (0.02, 0.1, 0.2)]
    for each, score in zip(trials, (0.344, 0.341, 0.9), strict=True):
        each.epochs[0]["validation_accuracy"] = score
    section = narrow_section(shelf(narrow, wide, *trials))
    assert "`resnet32wide` (546,192 parameters) also has a 1x1 convolution with batch norm and ReLU" in section[1]
    assert "which `resnet32` (480,144 parameters) has not, and the learning rates differ" in section[1]
    assert section[1].endswith(" came on held-out images to 34.4 % at 0.02 and 34.1 % at 0.1 (mmc).")
    assert cells(section, narrow.name)[2] == "0.02"
    assert cells(section, narrow.name)[-1] == "68.8 (0.1)"
    assert "Trials" not in narrow_section(shelf(narrow, wide, *trials[1:]))[1]
    assert "convolution" not in narrow_section(shelf(narrow))[1]


def test_a_column_that_nobody_has_is_left_out_and_lengths_stand_apart() -> None:
    short = training("cifar100-narrow-mmc", "cifar100-mmc", NARROW, epochs=1)
    seen = summary(MMC.name, "strict", robust=0, data="cifar100", answered=Rate(65.0, 100))
    section = narrow_section(shelf(MMC, short, seen))
    assert len(section) == 6  # title, what it is about, what is lost, two tables, names
    assert "classes with a right answer" in section[3]
    assert "classes with a right answer" not in section[4]


def test_they_are_of_one_seed_as_long_as_no_other_was_trained() -> None:
    assert "One seed each." in narrow_section(shelf(MMC))[1]
    other = training(f"{MMC.name}-seed1", "cifar100-mmc", NARROW)
    assert "One seed each." not in narrow_section(shelf(MMC, other))[1]
