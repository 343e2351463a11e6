"""The page about uncertainty: its verdict driven to each outcome by made-up records."""

import math
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from maxmahal.uncertainty import ModelResult, Record, ScoreResult, write_record
from maxmahal.uncertainty.record import Detection
from paper.pages.variants import UNCERTAINTY, variant_pages
from paper.pages.variants.uncertainty import (
    draw_uncertainty,
    judge_uncertainty,
    tasks,
    uncertainty_page,
)

pytestmark = pytest.mark.usefixtures("unchecked")


def scored(name: str, mistakes: float, strange: float, ignoring: float, evading: float) -> ScoreResult:
    seen, hidden = Detection(0.9, ignoring, 0.1), Detection(0.9, evading, 0.4)
    return ScoreResult(name, mistakes, 0.01, {"mnist": strange}, seen, hidden)


def model(loss: str, seed: int, *scores: ScoreResult) -> ModelResult:
    return ModelResult(f"{loss}-{seed}", loss, seed, "digits", 500, 0.97, 0.02, 0.001, "f", scores)


def record(ours: tuple[float, ...], theirs: tuple[float, ...] = (0.9, 0.9, 0.9, 0.9), seeds: int = 3) -> Record:
    """MMC's loss and SCE's softmax on mistakes, strangers and the two attacks, a little better with every seed."""
    models = []
    for seed in range(seeds):
        better = 0.001 * seed
        models.append(model("mmc", seed, scored("loss", *(value + better for value in ours))))
        models.append(model("sce", seed, scored("softmax", *(value + 2 * better for value in theirs))))
    return Record("0.1", 0, 50, ("mnist",), tuple(models))


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (record((0.95, 0.95, 0.95, 0.95)), "holds"),
        (record((0.95, 0.95, 0.95, 0.4)), "holds in part"),  # an attack that knows the score hides from it
        (record((0.5, 0.5, 0.5, 0.5)), "does not hold"),
        (record((0.95, 0.95, 0.95, 0.95), theirs=(0.99, 0.99, 0.99, 0.99)), "does not hold"),  # good, but behind
        (record((0.95, 0.95, 0.95, 0.95), seeds=1), "not measured"),
    ],
)
def test_every_verdict(found: Record, verdict: str) -> None:
    assert judge_uncertainty(found).verdict == verdict


def test_the_reason_names_what_failed() -> None:
    reason = judge_uncertainty(record((0.95, 0.95, 0.95, 0.4))).reason
    assert reason.startswith("MMC's loss passes: own mistakes, mnist images and")
    assert reason.endswith("; fails: attack that evades the score.")


def test_a_model_without_mistakes_does_not_count_where_mistakes_are_asked_for() -> None:
    whole = record((0.95, 0.95, 0.95, 0.95))
    first = replace(whole.models[0], scores=(scored("loss", math.nan, 0.9, 0.9, 0.9),))
    some = replace(whole, models=(first, *whole.models[1:]))
    assert sorted(tasks(some)[0].of(some, "mmc", "loss")) == [1, 2]
    assert sorted(tasks(some)[1].of(some, "mmc", "loss")) == [0, 1, 2]


def test_the_page_says_verdict_rule_numbers_and_what_would_change_it() -> None:
    page = uncertainty_page(record((0.95, 0.95, 0.95, 0.4)))
    assert "**Verdict: holds in part.**" in page
    assert "| own mistakes | 95.1 | 90.2 | +4.9 points" in page
    assert "| attack that evades the score | 40.1 | 90.2 | −50.1 points" in page
    assert "*Rule:*" in page
    assert "changes the attack's detection by MMC's loss by −55.0 points" in page


def test_the_figure_has_a_dot_a_seed_and_task() -> None:
    text = draw_uncertainty(record((0.95, 0.95, 0.95, 0.4)))
    ElementTree.fromstring(text)
    assert text.count('class="mark s0"') == text.count('class="mark s2"') == 12


def test_pages_come_from_the_record_alone(tmp_path: Path) -> None:
    write_record(tmp_path / UNCERTAINTY, record((0.95, 0.95, 0.95, 0.4)))
    assert sorted(variant_pages(tmp_path)) == ["figures/variants-uncertainty.svg", "uncertainty.md"]
