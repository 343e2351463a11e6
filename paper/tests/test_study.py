"""Studies with made-up numbers: verdicts among many comparisons, outcomes of predictions, tables."""

from dataclasses import replace
from typing import Any

import pytest

from paper.pages.paired import Difference
from paper.pages.study import (
    METRICS,
    Arm,
    Contrast,
    Expected,
    Metric,
    Prediction,
    Results,
    Study,
    Tally,
    against,
    comparison_table,
    corrected,
    effect,
    from_table,
    is_run,
    judge,
    outcome,
    spread,
    tally,
)

Gaps = dict[str, tuple[int, ...]]
CLOSE: Gaps = {"close": (100, 200, 240)}  # +1.8 points [+0.01, +3.6]: t = 4.32, p = 0.0497
NOTHING: Gaps = {f"none-{place}": (-100, 100, 10 * place) for place in range(5)}
SURE: Gaps = {f"sure-{place}": (300, 301, 303) for place in range(5)}
REFERENCE = "reference"


def compared(gaps: Gaps, metric: Metric = "clean", expected: Expected = "helps") -> Results:
    """Each arm against one reference in one measure: by how many of 10,000 images it is better, seed by seed."""
    arms = tuple(Arm(arm, arm, arm) for arm in (REFERENCE, *gaps))
    contrasts = against(REFERENCE, tuple(gaps), metric)
    study = Study("made-up", "t", arms, contrasts, (Prediction(contrasts, expected),))
    measured = "robust" if metric == "worst" else metric
    same = {"clean": [5000, 10_000], "robust": [5000, 10_000], "settings": {}, "stages": {}, "test_accuracy": [0.5]}
    runs: list[dict[str, Any]] = [
        {**same, "arm": arm, "seed": seed, measured: [5000 + gap, 10_000]}
        for arm, values in {REFERENCE: (0, 0, 0), **gaps}.items()
        for seed, gap in enumerate(values)
    ]
    return from_table(study, {"about": {}, "runs": runs})


def kept(*every: Results) -> list[str]:
    return [contrast.arm for each in corrected(every) for contrast in each.study.contrasts if contrast in each.kept]


def test_a_difference_alone_may_not_survive_among_many() -> None:
    assert kept(compared(CLOSE)) == ["close"]
    assert kept(compared({**CLOSE, **NOTHING})) == []
    assert kept(compared({**CLOSE, **SURE})) == ["close", *SURE]
    assert kept(compared(CLOSE), compared(NOTHING)) == []  # all studies of a page are corrected together


@pytest.mark.parametrize(
    ("gaps", "arm", "verdict", "dagger"),
    [
        (CLOSE, "close", "helps", ""),
        ({**CLOSE, **NOTHING}, "close", "may be chance", "†"),
        (NOTHING, "none-1", "no difference seen", ""),
        ({"small": (49, 50, 51)}, "small", "true, small", ""),
        ({"small": (30, 50, 60), **NOTHING}, "small", "may be chance", "†"),  # +0.5 points [+0.1, +0.8]: p = 0.034
        ({"few": (300, 300)}, "few", "not run", ""),
    ],
)
def test_verdicts_among_many(gaps: Gaps, arm: str, verdict: str, dagger: str) -> None:
    (results,) = corrected([compared(gaps)])
    judged = judge(results, Contrast(arm, REFERENCE, "clean"))
    assert (judged.verdict, judged.dagger) == (verdict, dagger)


def test_the_tally_counts_every_comparison() -> None:
    every = corrected([compared({"large": (300, 310, 320), "small": (30, 31, 32), "none": (-100, 100, 0)})])
    assert tally(every) == Tally(made=3, leave_out_zero=2, at_least_a_point=1, kept=2, daggers=0)
    assert tally(corrected([compared({**CLOSE, **NOTHING})])) == Tally(6, 1, 1, 0, 1)
    assert tally([]) == Tally(0, 0, 0, 0, 0)


def test_what_only_a_prediction_compares_is_counted_too() -> None:
    results = compared(CLOSE)
    more = Prediction((*results.study.contrasts, *against(REFERENCE, ("close",), "early")), "helps")
    results = replace(results, study=replace(results.study, predictions=(more,)))
    assert tally([results]).made == 2
    assert kept(results) == []  # 0.0497 of two is not below 0.025, and the other is not below 0.05


TIE, WIDE = (0, 1, -1), (-1000, 0, 1000)


@pytest.mark.parametrize(
    ("expected", "gaps", "found"),
    [
        ("helps", [(300, 301, 303), (400, 401, 403)], "came true"),
        ("helps", [(300, 301, 303), TIE], "came true in part"),
        ("helps", [(300, 301, 303), WIDE], "came true in part"),
        ("helps", [(49, 50, 51), (48, 50, 52)], "came true, small"),
        ("helps", [(49, 50, 51), (300, 301, 303)], "came true"),
        ("helps", [(49, 50, 51), TIE], "came true in part, small"),
        ("helps", [(-49, -50, -51)], "did not come true"),
        ("helps", [(-300, -301, -303)], "did not come true"),
        ("helps", [TIE], "did not come true"),  # so narrow that the effect would have been seen
        ("helps", [WIDE], "undecided"),
        ("helps", [(300, 301)], "not run"),
        ("hurts", [(-300, -301, -303)], "came true"),
        ("hurts", [(-49, -50, -51)], "came true, small"),
        ("equal", [TIE], "came true"),
        ("equal", [(49, 50, 51)], "came true"),
        ("equal", [(300, 301, 303)], "did not come true"),
        ("equal", [WIDE], "undecided"),
        ("does not help", [(-300, -301, -303)], "came true"),
        ("does not help", [(49, 50, 51)], "came true"),
        ("does not help", [(300, 301, 303)], "did not come true"),
        ("does not help", [WIDE], "undecided"),
    ],
)
def test_every_outcome_of_a_prediction(expected: Expected, gaps: list[tuple[int, ...]], found: str) -> None:
    (results,) = corrected([compared({f"arm-{place}": each for place, each in enumerate(gaps)}, expected=expected)])
    assert outcome(results, results.study.predictions[0]) == found


@pytest.mark.parametrize("expected", ["helps", "hurts", "equal", "does not help"])
def test_what_may_be_chance_settles_no_prediction(expected: Expected) -> None:
    (results,) = corrected([compared({**CLOSE, **NOTHING}, expected=expected)])
    assert outcome(results, Prediction((Contrast("close", REFERENCE, "clean"),), expected)) == "undecided"


def test_a_reference_alone_is_no_study() -> None:
    assert not is_run(compared({}))
    assert not is_run(compared({"few": (1, 2)}))
    assert is_run(compared(CLOSE))


def test_early_accuracy_is_that_of_the_first_epochs() -> None:
    results = compared(CLOSE)
    run = replace(results.runs[0], test_accuracy=(0.1, 0.2, 0.3, 0.4, 0.5, 0.9))
    assert run.value("early") == pytest.approx(30)


def test_a_table_of_differences() -> None:
    (results,) = corrected([compared({**CLOSE, **NOTHING, "large": (500, 510, 520), "few": (1, 2)})])
    contrasts = results.study.contrasts
    table = comparison_table(results, contrasts, METRICS).splitlines()
    assert table[0] == "| difference in points, three seeds | clean accuracy |"
    assert table[2] == "| close vs reference | **+1.8 [+0.01, +3.6]**† |"
    assert "| large vs reference | **+5.1 [+4.9, +5.3]** |" in table
    assert not any("few" in line for line in table)
    with_means = comparison_table(results, contrasts, METRICS, REFERENCE).splitlines()
    assert with_means[0] == "| difference to reference in points, three seeds | clean accuracy |"
    assert with_means[2:4] == ["| reference | 50.0 ± 0.0 |", "| close | **+1.8 [+0.01, +3.6]**† |"]
    assert comparison_table(compared({}), (), METRICS) == "not run"


def test_effects_and_means_as_text() -> None:
    assert effect(Difference((0.58, 1.42, 1.08))) == "+1.0 points [−0.02, +2.1], n = 3"
    assert effect(Difference((1.0,))) == "not run"
    assert [spread(values) for values in ((), (1.0,), (1.0, 3.0))] == ["not run", "1.0", "2.0 ± 1.4"]
