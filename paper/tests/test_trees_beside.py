"""What published summaries add to the page about trees: attack by attack, and trainings that wait for attacks."""

from dataclasses import replace
from typing import Any

import pytest
from made_up_summaries import run, stage, summary

from maxmahal.records.statistics import Rate
from paper.pages.trees_beside import Beside, looseness
from paper.pages.trees_rules import choose, seeds_told
from paper.pages.trees_study import LEARNED, MMC, NEAR, STRICT, TREES
from paper.pages.trees_tables import checked, choices, scan
from paper.pages.trees_words import fit, one_seed, rank_correlation
from paper.pages.variants.results import Results, Run


def trained(arm: str, nearest: float, **more: Any) -> Run:
    rate = Rate(600.0, 1000)
    facts: dict[str, Any] = {"settings": {}, "clean": rate, "robust": rate, "stages": {}, "test_accuracy": (0.6,)}
    weights = f"weights of {arm}-seed0"
    return Run(arm, 0, centers={"nearest": nearest}, **{**facts, "fingerprint": weights, **more})


def attacked(arm: str, left: int, *later: int) -> Any:
    """By a first attack that leaves so many of 1,000, and by later ones that break so many more."""
    clean = stage("clean", 60, 1000)
    first = stage("apgd-margin", 0, 1000, accuracy=Rate(float(left), 1000), broke=600 - left, title="APGD-20, margin")
    others = tuple(stage(f"more-{place}", 0, 1000, broke=broke) for place, broke in enumerate(later))
    aside = stage("far", 0, 1000, broke=99, counts=False)
    robust = (left - sum(later)) / 10
    return summary(f"{arm}-seed0", "trees", robust, 60, None, (clean, first, *others, aside), samples=1000)


def test_later_attacks_are_counted_on_what_the_first_one_left() -> None:
    beside = Beside((attacked(MMC, 200, 30, 10),))
    assert beside.broken_later(trained(MMC, 14.2)) == Rate(40.0, 200)
    assert beside.broken_later(trained(MMC, 14.2, fingerprint="other")) is None
    assert beside.broken_later(trained("trees-orthogonal-1", 14.2)) is None
    assert Beside((attacked(MMC, 0),)).broken_later(trained(MMC, 14.2)) is None
    assert beside.attacks == ["APGD-20, margin", "more-0", "more-1"]


def test_the_first_images_that_stand() -> None:
    beside = Beside((attacked(MMC, 200, 30, 10),))
    assert beside.stands(trained(MMC, 14.2), 200) == Rate(160.0, 200)
    assert beside.stands(trained(MMC, 14.2), 1001) is None


@pytest.mark.parametrize(("broken", "said"), [(100, "there the bounds are looser."), (20, "no clear order.")])
def test_bounds_are_called_looser_only_where_close_siblings_lose_more(broken: int, said: str) -> None:
    arms = {MMC: (14.2, 18), "trees-orthogonal-1": (11.2, 24), "trees-orthogonal-0.5": (7.1, broken)}
    runs = tuple(trained(arm, nearest) for arm, (nearest, _) in arms.items())
    beside = Beside(tuple(attacked(arm, 200, later) for arm, (_, later) in arms.items()))
    found = looseness(Results(TREES, {}, runs), beside)
    assert "later ones break 9 % with MMC-10, 12 to 12 % where" in found
    assert f"and {broken // 2} to {broken // 2} % where they lie closer: {said}" in found
    assert looseness(Results(TREES, {}, runs[:2]), beside) == ""
    assert looseness(Results(TREES, {}, runs), Beside()) == ""


# Trainings that wait


def finished(name: str, validation: float, loss: float = 15.88, **changes: Any) -> Any:
    epochs = tuple({"epoch": epoch, "validation_accuracy": validation, "train_loss": loss} for epoch in (1, 2))
    return run(name, [50.0, 40.0], epochs=epochs, **changes)


def waiting() -> Beside:
    learned = [finished("trees-learned-0.5-seed0", 0.57), finished("trees-learned-1-seed0", 0.629)]
    return Beside(runs=(*learned, *(finished(f"{MMC}-seed{seed}", 0.62, 20.0) for seed in range(3))))


def nothing() -> Results:
    return Results(TREES, {}, ())


def test_a_training_without_an_attack_is_called_trained() -> None:
    assert seeds_told(nothing(), MMC, waiting()) == "trained, not attacked yet"
    assert seeds_told(nothing(), "trees-learned-1", waiting()) == "not run"  # one seed of three
    attacked_once = Results(TREES, {}, (trained(MMC, 14.2),))
    assert seeds_told(attacked_once, MMC, waiting()) == "trained, not attacked yet"
    assert seeds_told(attacked_once, MMC, Beside()) == "not run"
    enough = Results(TREES, {}, tuple(replace(trained(MMC, 14.2), seed=seed) for seed in range(3)))
    assert seeds_told(enough, MMC, Beside()) == "MMC-10"
    assert "Trained, not attacked yet: MMC-10. Until then" in one_seed(nothing(), "trees-seeds", waiting())
    adversarial = Beside(runs=tuple(finished(f"trees-at-orthogonal-1-seed{seed}", 0.3) for seed in range(3)))
    told = one_seed(Results(STRICT, {}, ()), "trees-strict", adversarial)
    assert "Trained, not attacked yet: AT, orthogonal subspaces, ratio 1. Until then" in told


def test_validation_chooses_among_trainings_that_were_not_attacked() -> None:
    assert choose(nothing(), LEARNED, waiting()).best == "trees-learned-1"
    table = choices(nothing(), (LEARNED,), waiting())
    assert "| MMC-10 | 62.0 | – | trained, not attacked yet |" in table
    scores = "0.2: not run, 0.5: 57.0, 1: 62.9, 1.4: not run"
    assert f"| learned tree | {scores} | learned tree, ratio 1 | not run |" in table


def test_waiting_trainings_have_a_row_and_no_numbers_but_their_loss() -> None:
    names = [arm.name for arm in TREES.arms]
    row = "| learned tree, ratio 1 | trained, not attacked yet | – | – | – | – | 15.9 |"
    assert row in scan(nothing(), names, waiting())
    assert row not in scan(nothing(), [MMC], waiting())
    near = Results(NEAR, {}, ())
    assert "| learned tree, ratio 1 | trained, not attacked yet | – | – | – | – |" in checked(
        nothing(), near, waiting()
    )
    assert "| MMC-10 | trained, not attacked yet |" in checked(nothing(), near, waiting())
    assert "| MMC-10 | not run |" in checked(nothing(), near, Beside())


def test_the_loss_is_of_the_weights_that_were_attacked() -> None:
    beside = Beside(runs=(finished("a-seed0", 0.5, weights={"last": "x"}),))
    assert beside.training_loss("a-seed0") == 15.88
    assert beside.training_loss("a-seed0", "x") == 15.88
    assert beside.training_loss("a-seed0", "other") is None


# Fit


def test_ranks_and_ties() -> None:
    assert rank_correlation([1.0, 2.0, 30.0], [0.1, 5.0, 6.0]) == pytest.approx(1)
    assert rank_correlation([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]) == pytest.approx(-1)
    assert rank_correlation([1.0, 1.0, 2.0], [1.0, 2.0, 3.0]) == pytest.approx(3**0.5 / 2)  # ranks 0.5, 0.5, 2


@pytest.mark.parametrize(("sign", "told"), [(1, True), (-1, False)])
def test_that_worse_fits_stand_better_is_said_only_where_it_is_so(sign: int, told: bool) -> None:
    arms = [arm.name for arm in TREES.arms if "orthogonal" in arm.name]
    runs = tuple(trained(arm, 1.0, robust=Rate(100.0 + sign * place, 1000)) for place, arm in enumerate(arms))
    emc = trained("trees-emc-0.1", 14.2, robust=Rate(0.0, 1000))
    losses = [finished(f"{arm}-seed0", 0.5, 10.0 + place) for place, arm in enumerate(arms)]
    beside = Beside(runs=(*losses, finished("trees-emc-0.1-seed0", 0.5, 99.0)))
    found = fit(Results(TREES, {}, (*runs, emc)), beside)
    assert (f"Over {len(arms)} arms without EMC the worst case rises with it (rank correlation 1.00)" in found) == told
