"""RobustBench's entries of the zoo: the same numbers as from records, and none without AutoAttack on all images."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_up_summaries import published, stage, summary

from maxmahal.records.export import robustbench_card
from paper.pages.models import ZOO
from paper.pages.robustbench import robustbench_entry
from paper.summaries import read_summary, summarise, write_summary

sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "tests" / "report"))
from small_evaluations import make_evaluation, make_stages

NAME = "cifar10-at-mmc"
MODEL = ZOO[NAME]


def entry(*things: Any) -> dict[str, Any]:
    return dict(json.loads(robustbench_entry(published(*things), NAME)))


def test_an_entry_is_the_one_that_records_make(tmp_path: Path) -> None:
    clean, pgd, square, *_ = make_stages()
    stages = (replace(clean, counts=False), pgd, square)
    evaluation = make_evaluation(suite="autoattack", name=MODEL, stages=stages)
    write_summary(tmp_path / "x.json", summarise(evaluation))
    found, wanted = entry(read_summary(tmp_path / "x.json")), robustbench_card(evaluation)
    assert list(found) == list(wanted)
    assert wanted["autoattack_acc"] == "50.00"
    told = {"name": NAME, "footnote": found["footnote"]}
    assert found == wanted | told
    assert found["footnote"].startswith(wanted["footnote"].partition(" (")[0] + " (version 1, seed 0) on 10 samples")


def test_strict_on_all_images_is_an_external_evaluation() -> None:
    standard = summary(MODEL, "autoattack", robust=50)
    found = entry(standard, summary(MODEL, "strict", robust=49, trust="unresolved"))
    assert (found["autoattack_acc"], found["external"], found["unreliable"]) == ("50.00", "49.00", True)
    assert found["footnote"] == (
        "49.00% is the worst case per sample over every attack of maxmahal's suites autoattack (version 1, seed 0) "
        "and strict (version 1, seed 0) on 2000 samples."
    )
    assert entry(standard, summary(MODEL, "strict", robust=51))["external"] is None
    few = summary(MODEL, "strict", robust=10, samples=1000, limited=True, trust="mended")
    found = entry(standard, few)
    assert (found["external"], found["unreliable"]) == (None, False)
    assert found["footnote"].startswith("50.00% is the worst case per sample over every attack of maxmahal's suite a")


def test_a_worst_case_on_other_images_is_not_an_external_evaluation() -> None:
    standard, few = summary(MODEL, "autoattack", robust=50), {"samples": 1000, "limited": True}
    both_on_few = [summary(MODEL, suite, robust=10, **few) for suite in ("autoattack", "strict")]
    assert entry(standard, *both_on_few)["external"] is None
    assert entry(standard, summary(MODEL, "strict", robust=10, data_fingerprint="others"))["external"] is None


@pytest.mark.parametrize(
    "things",
    [
        [],
        [summary(MODEL, "strict")],
        [summary(MODEL, "autoattack", limited=True)],
        [summary(MODEL, "autoattack", more=(stage("aa-square", 50.0, skipped="It needs time."),))],
        [summary(MODEL, "autoattack", epsilon="4/255", radius=4 / 255)],
        [summary("cifar10-sce", "autoattack")],
    ],
)
def test_no_entry_without_autoattack_on_all_images(things: list[Any]) -> None:
    assert robustbench_entry(published(*things), NAME) == ""


def test_a_stage_that_does_not_count_may_be_skipped() -> None:
    assert entry(summary(MODEL, "autoattack", more=(stage("far", 50.0, counts=False, skipped="Slow."),)))
