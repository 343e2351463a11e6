"""What the shelf makes of several evaluations of one model: the worst case of all, and all images where known."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_up_summaries import run, shelf, summary

from maxmahal.records.statistics import Rate
from paper.pages.measured import Measured
from paper.pages.missing import missing_list
from paper.pages.tables import white_box_table
from paper.summaries import RunSummary, Summary

MMC, SHORT = "cifar10-mmc", "cifar10-at-mmc-short"


def test_the_worst_case_is_of_each_image_over_both_suites() -> None:
    """600 of 2,000 stand under the one, 500 under the other, and only 100 under both."""
    ids = np.arange(2000)
    first = summary(MMC, "autoattack", robust=30, stands=ids < 600)
    second = summary(MMC, "strict", robust=25, stands=(ids >= 500) & (ids < 1000))
    found = shelf(first, second).strongest(MMC)
    assert found is not None
    assert (found.rate, found.limited, found.note) == (Rate(100.0, 2000), False, "")


@pytest.mark.parametrize(
    "changes", [{"data_fingerprint": "others"}, {"model_fingerprint": "others"}, {"samples": 1000}]
)
def test_suites_of_other_images_are_compared_and_said_to_be(changes: dict[str, Any]) -> None:
    found = shelf(summary(MMC, "autoattack", robust=30), summary(MMC, "strict", robust=20, **changes)).strongest(MMC)
    assert found is not None
    assert found.value == pytest.approx(20)
    assert found.full.endswith("(the lower of two suites, which did not see the same images)")
    assert "lower" not in found.cell


@pytest.mark.parametrize("suites", [("autoattack", "strict"), ("strict", "autoattack")])
def test_where_nobody_stands_the_suite_that_saw_more_images_proves_more(suites: tuple[str, str]) -> None:
    few, many = suites
    found = shelf(summary(MMC, few, robust=0, samples=1000, limited=True), summary(MMC, many, robust=0)).strongest(MMC)
    assert found is not None
    assert (found.rate, found.limited, found.note) == (Rate(0.0, 2000), False, "")


def test_of_several_sizes_the_largest_that_both_saw_counts() -> None:
    few = [summary(MMC, suite, robust=50, samples=1000, limited=True) for suite in ("autoattack", "strict")]
    found = shelf(*few, summary(MMC, "strict", robust=60)).strongest(MMC)
    assert found is not None
    assert (found.samples, found.limited) == (1000, True)
    more = summary(MMC, "strict", robust=40)
    lower = shelf(*few, more).strongest(MMC)
    assert lower is not None
    assert (lower.samples, lower.value) == (2000, pytest.approx(40)), "no image forgives another"
    alone = shelf(more).strongest(MMC)
    assert alone is not None
    assert alone.value == pytest.approx(40)
    assert shelf().strongest(MMC) is None


def attacked(name: str, epoch: int = 25) -> Summary:
    """On the first thousand images, of which 62.4 % are right."""
    model = {"settings": {"train": {"epochs": 25}}, "epoch": epoch, "table": ""}
    return replace(summary(name, "autoattack", clean=62.4, samples=1000, limited=True), model=model)


def whole(name: str) -> Summary:
    """The same checkpoint on every image that its suite takes."""
    return replace(summary(name, "strict", clean=63), model=attacked(name).model)


def with_settings(name: str, suite: str, settings: dict[str, float]) -> Summary:
    return replace(summary(name, suite), model={"settings": settings})


def trained(name: str = SHORT, **changes: Any) -> RunSummary:
    scores = {"last": {"epoch": 25, "test_accuracy": 0.6308}, "best": {"epoch": 20, "test_accuracy": 0.6001}}
    return run(name, [40.0], **{"result": scores, **changes})


@pytest.mark.parametrize(
    ("things", "count", "images"),
    [
        ([attacked(SHORT), trained()], 6308, 10_000),
        ([attacked(SHORT)], 624, 1000),
        ([attacked(SHORT, epoch=24), trained()], 624, 1000),  # of another epoch's checkpoint
        ([attacked(SHORT), trained(finished=False)], 624, 1000),
        ([attacked(SHORT), trained(weights={"last": f"weights of {SHORT}", "best": "others"})], 6308, 10_000),
        ([attacked(SHORT), trained(weights={"last": "others"})], 624, 1000),  # of another training
        ([attacked(SHORT), trained(result={"last": {"epoch": 25}})], 624, 1000),
        ([attacked(SHORT), trained(), whole(SHORT)], 1260, 2000),
    ],
)
def test_clean_accuracy_is_of_all_images_where_they_are_known(
    things: list[Summary | RunSummary], count: float, images: int
) -> None:
    found = shelf(*things).clean(SHORT)
    assert found is not None
    assert found.rate == Rate(float(count), images)
    assert found.limited == (images == 1000)


@pytest.mark.parametrize(
    ("told", "trained_with", "wanted"),
    [
        ([{"lr": 0.1}], {"lr": 0.2}, {"lr": 0.1}),  # the training was run again since, with another rate
        ([{}, {"lr": 0.1}], {"lr": 0.2}, {"lr": 0.1}),
        ([{}], {"lr": 0.2}, {"lr": 0.2}),
        ([], {"lr": 0.2}, {"lr": 0.2}),
        ([{"lr": 0.1}], None, {"lr": 0.1}),
        ([{}], None, {}),
    ],
)
def test_settings_are_those_of_the_weights_that_were_evaluated(
    told: list[dict[str, float]], trained_with: dict[str, float] | None, wanted: dict[str, float]
) -> None:
    suites = ("strict", "autoattack")
    seen = [with_settings(MMC, suite, each) for suite, each in zip(suites, told, strict=False)]
    runs = [] if trained_with is None else [run(MMC, [10.0], settings=trained_with)]
    others = [with_settings("other", "strict", {"lr": 9.0}), run("another", [10.0])]
    assert shelf(*others, *seen, *runs).settings(MMC) == wanted


def test_evaluations_of_other_weights_than_the_trainings_are_named() -> None:
    told = "- evaluated with other weights than their trainings here ended with, so to be evaluated again: "
    runs = [
        run(MMC, [10.0], weights={"last": f"weights of {MMC}"}),
        trained(weights={"best": "others"}),
        run("old", [9.0]),
    ]
    things = [summary(MMC, "strict"), attacked(SHORT), summary("old", "strict"), *runs]
    assert told not in missing_list(shelf(*things))
    things += [summary(f"{SHORT}-best", suite) for suite in ("strict", "autoattack")]
    assert f"\n{told}`{SHORT}-best`\n" in missing_list(shelf(*things))


def test_the_best_checkpoint_has_its_own_count() -> None:
    found = shelf(attacked(f"{SHORT}-best", epoch=20), trained()).clean(f"{SHORT}-best")
    assert found is not None
    assert found.rate == Rate(6001.0, 10_000)


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({}, 6308.0),
        ({"finished": False}, None),
        ({"settings": {}}, None),  # nobody knows how many test images there were
        ({"result": {"last": {"epoch": 25}}}, None),
    ],
)
def test_a_finished_training_speaks_for_a_model_that_nobody_attacked(
    changes: dict[str, Any], count: float | None
) -> None:
    alone = shelf(trained(**{"settings": {"data": {"source": "cifar10"}}, **changes}))
    found = alone.clean(SHORT)
    assert (None if found is None else found.rate) == (None if count is None else Rate(count, 10_000))
    assert found is None or not found.limited
    assert alone.robust(SHORT, "strict") is None


@pytest.mark.parametrize(
    ("count", "total", "cell", "full"),
    [
        (1.0, 10_000, "0.01 (1 of 10,000)", "0.01 % [0.00, 0.06] (1 of 10,000)"),
        (4.0, 10_000, "0.04 (4 of 10,000)", "0.04 % [0.01, 0.10] (4 of 10,000)"),
        (5.0, 10_000, "0.1", "0.1 % [0.0, 0.1]"),
        (0.0, 10_000, "≤ 0.04", "≤ 0.04 %"),
        (1.0, 1000, "0.1", "0.1 % [0.0, 0.6]"),
    ],
)
def test_a_rounded_zero_hides_nobody(count: float, total: int, cell: str, full: str) -> None:
    found = Measured(Rate(count, total), float("nan"), total, False)
    assert (found.cell, found.full) == (cell, full)


def test_survivors_stand_in_the_table() -> None:
    one = summary(MMC, "autoattack", robust=0.01, samples=10_000)
    assert white_box_table(shelf(one)).count("**0.01 (1 of 10,000)**") == 1
