"""What published summaries add to the page about trees: how far short attacks are from the end."""

from typing import Any

import pytest
from made_up_summaries import stage, summary

from maxmahal.evaluate.statistics import Rate
from maxmahal.report.published.trees_beside import Beside, looseness
from maxmahal.report.published.trees_study import MMC, TREES
from maxmahal.report.published.variants.results import Results, Run


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
