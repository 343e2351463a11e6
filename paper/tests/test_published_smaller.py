"""Worst cases at smaller epsilons: a section of their own, and only where there are any."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_up_summaries import shelf, summary

from paper.pages import claims_page, results_page
from paper.pages.missing import missing_list
from paper.pages.smaller import smaller_section
from paper.summaries import Summary

SCE, MMC, RAND = "cifar10-sce", "cifar10-mmc", "cifar10-mmc-rand"
AT_SCE, AT_MMC = "cifar10-at-un-sce", "cifar10-at-un-mmc"


def at(model: str, epsilon: int, robust: float, **changes: Any) -> Summary:
    """Under strict on the first thousand images, in so many 255ths."""
    facts = {"samples": 1000, "limited": True, "epsilon": f"{epsilon}/255", "radius": epsilon / 255, **changes}
    return summary(model, "strict", robust=robust, **facts)


SHELF = shelf(
    at(MMC, 2, 6.0),
    at(SCE, 2, 6.2),
    at(MMC, 1, 40.0),
    at(SCE, 1, 30.0),
    at(RAND, 1, 35.0),
    summary(SCE, "strict", robust=0.0),
)


def rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_models_by_epsilons_with_intervals() -> None:
    title, about, table, _ = smaller_section(SHELF)
    assert title == "### Smaller epsilons"
    assert "One training of each model" in about
    head, _, *body = rows(table)
    assert head == ["worst case", "strict at Linf 1/255", "strict at Linf 2/255"]
    assert body == [
        ["SCE", "30.0 % [27.2, 32.9] (first 1,000)", "6.2 % [4.8, 7.9] (first 1,000)"],
        ["MMC-10 (rand)", "35.0 % [32.0, 38.0] (first 1,000)", "not run"],
        ["MMC-10", "40.0 % [36.9, 43.1] (first 1,000)", "6.0 % [4.6, 7.7] (first 1,000)"],
    ]


def test_mmc_against_sce_at_each_epsilon() -> None:
    """100 images that only MMC-10 keeps at 1/255, and 2 that only SCE keeps at 2/255."""
    *_, pairs = smaller_section(SHELF)
    _, _, *body = rows(pairs)
    assert [row[:2] for row in body] == [
        ["MMC-10 less SCE", "strict at Linf 1/255"],
        ["MMC-10 less SCE", "strict at Linf 2/255"],
    ]
    assert body[0][3] == "p < 0.001 (100 to 0 of 1,000 images)"
    assert body[1][3] == "p = 0.500 (0 to 2 of 1,000 images)"
    assert body[0][2].startswith("+10.0 points [+8.")
    assert body[1][2].startswith("−0.2 points [−0.")


def test_adversarial_training_is_compared_with_its_like() -> None:
    *_, pairs = smaller_section(shelf(at(AT_SCE, 2, 60.0), at(AT_MMC, 2, 61.0), at(MMC, 2, 5.0)))
    assert [row[0] for row in rows(pairs)[2:]] == ["AT un 10 (MMC-10) less AT un 10 (SCE)"]


@pytest.mark.parametrize(
    "changes", [{"data_fingerprint": "others"}, {"samples": 500}, {"suite_version": 2}, {"seed": 1}]
)
def test_other_images_or_attacks_are_not_paired(changes: dict[str, Any]) -> None:
    found = smaller_section(shelf(at(MMC, 1, 40.0), at(SCE, 1, 30.0, **changes)))
    assert len(found) == 3
    assert len(rows(found[-1])) == 4


@pytest.mark.parametrize(
    "other",
    [
        summary(MMC, "strict", robust=40),
        at(MMC, 16, 40.0),
        at(MMC, 1, 40.0, norm="L2"),
        replace(at(MMC, 1, 40.0), suite="paper-table1"),
        replace(at(MMC, 1, 40.0), suite="mine"),
        replace(at(MMC, 1, 40.0), data="cifar100"),
        at(MMC, 8, 40.0, radius=np.nextafter(8 / 255, 0.0).item()),
    ],
    ids=["own", "larger", "L2", "protocol", "mine", "cifar100", "rounded"],
)
def test_nothing_else_is_a_smaller_ball(other: Summary) -> None:
    assert smaller_section(shelf(other)) == []
    assert "Smaller epsilons" not in results_page(shelf(other), [])


def test_the_section_follows_the_two_budgets_and_moves_nothing_else() -> None:
    text, without = results_page(SHELF, []), results_page(shelf(*SHELF.evaluations[-1:]), [])
    titles = [line for line in text.splitlines() if line.startswith("### ")]
    assert titles[titles.index("### Adversarial training at two budgets") + 1] == "### Smaller epsilons"
    assert "Smaller" not in without
    assert "1/255, which none" not in missing_list(SHELF)
    table_1 = text.partition("### Table 1")[2].partition("### Table 2")[0]
    assert "40.0" not in table_1
    assert "40.0 %" not in claims_page(SHELF)


def test_more_images_count_before_fewer() -> None:
    few, many = at(MMC, 1, 40.0), at(MMC, 1, 44.0, samples=2000, limited=False)
    table = smaller_section(shelf(few, many))[2]
    assert rows(table)[2] == ["MMC-10", "44.0 % [41.8, 46.2]"]
