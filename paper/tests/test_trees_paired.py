"""Two trainings of the scan on the same images: intervals image by image where summaries tell which were right."""

import math
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from made_up_summaries import summary

from maxmahal.evaluate.severity import Severity
from maxmahal.records.statistics import Comparison, Rate, points_apart
from paper.pages.trees_beside import Beside
from paper.pages.trees_figures import draw_scan
from paper.pages.trees_scan import apart, same_ratio_table, small_predicted
from paper.pages.trees_study import MMC, TREES
from paper.pages.trees_words import same_ratio
from paper.pages.variants.results import Results, Run
from paper.pages.variants.spec import Metric
from paper.summaries import Summary

pytestmark = pytest.mark.usefixtures("unchecked")
GIVEN, RANDOM = "trees-orthogonal-1", "trees-random-1"
IMAGES = 1000


def seen(arm: str, right: range, near: range | None = None, stands: range = range(0)) -> Summary:
    """A model by the images that it gets right, that it gets right but for the superclass, and that stand."""
    flags = [None if each is None else np.isin(np.arange(IMAGES), each) for each in (right, near, stands)]
    facts: dict[str, Any] = dict(zip(("right", "near", "stands"), flags, strict=True))
    return summary(f"{arm}-seed0", "trees", samples=IMAGES, **facts)


def counted(arm: str, right: int, near: int, stands: int) -> Run:
    """The same model as the study's file has it: counts alone."""
    mistakes = {"clean": Severity((right, near - right, IMAGES - near))}
    facts: dict[str, Any] = {"settings": {}, "stages": {}, "test_accuracy": (0.5,), "mistakes": mistakes}
    clean, robust = (Rate(float(count), IMAGES) for count in (right, stands))
    return Run(arm, 0, fingerprint=f"weights of {arm}-seed0", clean=clean, robust=robust, **facts)


RESULTS = Results(TREES, {}, (counted(MMC, 600, 700, 100), counted(GIVEN, 620, 760, 80), counted(RANDOM, 590, 690, 90)))
SUMMARIES = (
    seen(MMC, range(600), range(700), range(100)),
    seen(GIVEN, range(10, 630), range(5, 765), range(30, 110)),
    seen(RANDOM, range(590), range(690), range(90)),
)
BESIDE = Beside(SUMMARIES)


@pytest.mark.parametrize(
    ("metric", "pair"), [("clean", (30, 10)), ("superclass", (65, 5)), ("worst", (10, 30))], ids=lambda each: str(each)
)
def test_what_only_one_of_two_models_gets_right_is_counted(metric: Metric, pair: tuple[int, int]) -> None:
    mmc, given, _ = RESULTS.runs
    assert BESIDE.paired(given, mmc, metric) == Comparison(*pair, IMAGES)
    found = apart(RESULTS, GIVEN, MMC, metric, BESIDE)
    assert found is not None
    assert found.paired
    # By hand, with half an image in each of four cells: the variance of a difference of paired shares.
    ours, theirs, total = pair[0] + 0.5, pair[1] + 0.5, IMAGES + 2
    middle, variance = (ours - theirs) / total, (ours + theirs - (ours - theirs) ** 2 / total) / total**2
    reach = 1.959964 * math.sqrt(variance)
    assert found.size == pytest.approx((pair[0] - pair[1]) / 10)
    assert (found.low, found.high) == pytest.approx((100 * (middle - reach), 100 * (middle + reach)), abs=1e-6)
    loose = apart(RESULTS, GIVEN, MMC, metric, Beside())
    assert loose is not None
    assert not loose.paired
    assert loose.size == pytest.approx(found.size)
    assert found.high - found.low < loose.high - loose.low


def test_mistakes_of_two_models_are_different_images() -> None:
    mmc, given, _ = RESULTS.runs
    assert BESIDE.paired(given, mmc, "near") is None
    found = apart(RESULTS, GIVEN, MMC, "near", BESIDE)
    assert found == (*points_apart(Rate(140.0, 380), Rate(100.0, 400)), False)


@pytest.mark.parametrize(
    "changes",
    [
        {"model_fingerprint": "others"},
        {"data_fingerprint": "others"},
        {"suite_version": 2},
        {"seed": 1},
    ],
    ids=lambda each: next(iter(each)),
)
def test_models_that_cannot_be_paired_keep_the_interval_of_two_rates(changes: dict[str, Any]) -> None:
    other = Beside((SUMMARIES[0], replace(SUMMARIES[1], **changes)))
    found = apart(RESULTS, GIVEN, MMC, "clean", other)
    assert found == (*points_apart(Rate(620.0, IMAGES), Rate(600.0, IMAGES)), False)


def test_a_summary_of_other_images_than_were_counted_is_not_paired() -> None:
    mmc, given, _ = (replace(run, clean=Rate(run.clean.count, 10_000)) for run in RESULTS.runs)
    assert BESIDE.paired(given, mmc, "clean") is None


def test_superclasses_that_a_summary_does_not_tell_are_not_paired() -> None:
    older = Beside((replace(SUMMARIES[0], near=None), SUMMARIES[1]))
    mmc, given, _ = RESULTS.runs
    assert older.paired(given, mmc, "superclass") is None
    assert older.paired(given, mmc, "clean") is not None


# What figures and tables say of it


def note(svg: str) -> str:
    return " ".join(each.text or "" for each in ElementTree.fromstring(svg).iter() if each.get("class") == "note")


def test_the_figure_of_accuracies_is_paired_and_says_so() -> None:
    drawn = draw_scan(RESULTS, "clean", BESIDE)
    assert "orthogonal subspaces, ratio 1: +2.0 points [+0.7, +3.2], paired" in drawn
    assert "paired image by image with MMC-10's answers" in note(drawn)
    assert "other ones" not in note(drawn)


def test_a_figure_without_summaries_keeps_its_intervals_and_says_why() -> None:
    drawn = draw_scan(RESULTS, "clean", Beside())
    assert "orthogonal subspaces, ratio 1: +2.0 points [−2.3, +6.3]" in drawn
    assert ", paired" not in drawn
    assert "as if each model had seen other ones, not paired, as no summary tells" in note(drawn)


def test_a_figure_with_some_summaries_counts_those_that_it_lacks() -> None:
    assert "MMC-10's answers, as both saw the same ones, but 1 of 2 as if each model had" in note(
        draw_scan(RESULTS, "clean", Beside(SUMMARIES[:2]))
    )


def test_the_figure_of_mistakes_says_why_it_is_not_paired() -> None:
    assert "not paired, as the mistakes of two models are different images" in note(draw_scan(RESULTS, "near", BESIDE))


def test_the_table_of_trees_marks_what_is_not_paired() -> None:
    table = same_ratio_table(RESULTS, BESIDE)
    (row,) = (line for line in table.splitlines() if line.startswith("| given tree less random tree"))
    marked = ["‡" in cell for cell in row.split(" | ")[1:]]
    assert marked == [False, False, True, False]  # clean, superclass, mistakes within, worst case
    assert "‡ marks those that are not paired" in same_ratio(table)
    assert "‡" not in same_ratio(table.replace("‡", ""))


def test_the_small_ratios_say_whether_images_were_paired() -> None:
    small = Results(TREES, {}, (RESULTS.runs[0], counted("trees-shared-0.1", 400, 700, 50)))
    known = Beside((SUMMARIES[0], seen("trees-shared-0.1", range(400))))
    assert "intervals over the same images: " in small_predicted(small, known)[0]
    assert "intervals over images, not all of them paired: " in small_predicted(small, Beside())[0]
