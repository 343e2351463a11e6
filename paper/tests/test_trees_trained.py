"""Adversarial training on class trees by its trainings' own scores: three seeds that were trained alike, or nothing."""

from dataclasses import replace
from typing import Any

import pytest
from made_up_summaries import run

from paper.pages.trees_beside import Beside
from paper.pages.trees_study import AT_MMC, AT_ORTHOGONAL
from paper.pages.trees_trained import trained_alone
from paper.summaries import RunSummary

HM = AT_ORTHOGONAL.names[-1]
MMC_PGD, HM_PGD = (0.2, 0.21, 0.22), (0.19, 0.2, 0.21)


def trained(arm: str, seed: int, pgd: float | None, clean: float = 0.3, **train: Any) -> RunSummary:
    scores = {"epoch": 20, "test_accuracy": clean, **({} if pgd is None else {"test_pgd10": pgd})}
    settings = {"train": {"epochs": 20, "lr": 0.2, "seed": seed, **train}, "method": {"epsilon": "8/255"}}
    return run(f"{arm}-seed{seed}", [70.0], settings=settings, result={"last": scores})


def arms(mmc: tuple[float, ...] = MMC_PGD, hm: tuple[float, ...] = HM_PGD, **train: Any) -> list[RunSummary]:
    found = [trained(AT_MMC, seed, pgd) for seed, pgd in enumerate(mmc)]
    return [*found, *(trained(HM, seed, pgd, 0.3 + seed / 100, **train) for seed, pgd in enumerate(hm))]


@pytest.mark.parametrize(
    ("hm", "told"),
    [
        (HM_PGD, "−1.0 [−1.0, −1.0] points"),
        ((0.22, 0.23, 0.24), "+2.0 [+2.0, +2.0] points"),
        ((0.19, 0.22, 0.225), "+0.2 [−2.4, +2.8] points"),
    ],
)
def test_the_same_seeds_are_paired_under_attack_and_clean(hm: tuple[float, ...], told: str) -> None:
    said = trained_alone(Beside(runs=tuple(arms(hm=hm))))
    answer = "a gain" if told.startswith("+2.0") else "no gain seen"
    assert said.startswith(
        f"**Robustness with adversarial training: {answer}.** After 20 epochs at rate 0.2, three seeds, "
    )
    assert f": orthogonal subspaces, ratio 1, {told}, on clean images +1.0 [−1.5, +3.5] points." in said


@pytest.mark.parametrize(
    "runs",
    [
        [],
        arms(hm=HM_PGD[:2]),
        arms(mmc=MMC_PGD[:2]),
        arms(lr=0.1),
        [*arms()[:-1], trained(HM, 2, None)],
        [*arms()[:-1], replace(arms()[-1], result={})],
        [*arms()[:-1], trained(HM, 3, 0.2)],
        [*arms()[:-1], trained(HM, 2, 0.2, epochs=200)],
    ],
    ids=["none", "two", "two of MMC", "other rate", "no attack", "no result", "other seed", "one for longer"],
)
def test_nothing_is_told_of_fewer_seeds_or_of_other_schedules(runs: list[RunSummary]) -> None:
    assert trained_alone(Beside(runs=tuple(runs))) == ""
