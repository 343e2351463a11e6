"""The page about uncertainty: its verdict driven to each outcome by made-up records."""

import math
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from maxmahal.uncertainty import Detection, ModelUncertainty, ScoreResult, UncertaintyRecord, write_record
from paper.pages.uncertainty import (
    RECORD,
    draw_uncertainty,
    judge_tasks,
    tasks,
    uncertainty_page,
    uncertainty_pages,
    uncertainty_verdict,
)

pytestmark = pytest.mark.usefixtures("unchecked")
GOOD = (0.95, 0.95, 0.95, 0.95)
EVADED = (0.95, 0.95, 0.95, 0.4)


def scored(name: str, errors: float, ood: float, ignoring: float, evading: float) -> ScoreResult:
    seen, hidden = Detection(0.9, ignoring, 0.1), Detection(0.9, evading, 0.4)
    return ScoreResult(name, errors, 0.01, {"mnist": ood}, seen, hidden)


def model(loss: str, seed: int, *scores: ScoreResult) -> ModelUncertainty:
    return ModelUncertainty(f"{loss}-{seed}", loss, seed, "digits", 500, 0.97, 0.02, 0.001, "f", scores)


def record(
    ours: tuple[float, ...], theirs: tuple[float, ...] = (0.9, 0.9, 0.9, 0.9), seeds: int = 3
) -> UncertaintyRecord:
    """MMC's loss and SCE's softmax on errors, other images and the two attacks, a little better with every seed."""
    models = []
    for seed in range(seeds):
        better = 0.001 * seed
        models.append(model("mmc", seed, scored("loss", *(value + better for value in ours))))
        models.append(model("sce", seed, scored("softmax", *(value + 2 * better for value in theirs))))
    return UncertaintyRecord("0.1", 0, 50, ("mnist",), tuple(models))


@pytest.mark.parametrize(
    ("found", "verdict", "failed"),
    [
        (record(GOOD), "holds", 0),
        (record(EVADED), "holds in part", 1),
        (record((0.5, 0.5, 0.5, 0.5)), "does not hold", 4),
        (record(GOOD, theirs=(0.99, 0.99, 0.99, 0.99)), "does not hold", 4),  # good, but worse than the baseline
        (record(GOOD, seeds=1), "not measured", 0),
    ],
)
def test_every_verdict(found: UncertaintyRecord, verdict: str, failed: int) -> None:
    judged = judge_tasks(found)
    assert uncertainty_verdict(judged) == verdict
    assert sum(not each.passed for each in judged) == failed


def test_a_model_without_errors_does_not_count_for_errors() -> None:
    whole = record(GOOD)
    first = replace(whole.models[0], scores=(scored("loss", math.nan, 0.9, 0.9, 0.9),))
    some = replace(whole, models=(first, *whole.models[1:]))
    assert sorted(tasks(some)[0].of(some, "mmc", "loss")) == [1, 2]
    assert sorted(tasks(some)[1].of(some, "mmc", "loss")) == [0, 1, 2]


def test_the_page_has_the_verdict_and_its_numbers() -> None:
    page = uncertainty_page(record(EVADED))
    assert "**holds in part**" in page
    assert "passes 3 of 4 tasks and fails on: attack that evades the score." in page
    assert "| own errors | 95.1 | 90.2 | +4.9 points" in page
    assert "| attack that evades the score | 40.1 | 90.2 | −50.1 points" in page
    assert "from 95.1 to 40.1 % (−55.0 points" in page
    assert "not both measured" in uncertainty_page(record(GOOD, seeds=1))


def test_pages_come_from_the_record_alone(tmp_path: Path) -> None:
    assert uncertainty_pages(tmp_path) == {}
    write_record(tmp_path / RECORD, record(EVADED))
    found = uncertainty_pages(tmp_path)
    assert sorted(found) == ["figures/variants-uncertainty.svg", "uncertainty.md"]
    ElementTree.fromstring(found["figures/variants-uncertainty.svg"])
    assert found["figures/variants-uncertainty.svg"] == draw_uncertainty(record(EVADED))
