"""Many comparisons on one page: p values, which differences outlast them, and signs of numbers close to zero."""

import random
from dataclasses import replace
from typing import Any

import pytest

from paper.pages.paired import Difference
from paper.pages.variants.page import variants_page
from paper.pages.variants.results import Results, from_table
from paper.pages.variants.rules import (
    effect,
    lasting,
    many,
    outcome,
    sentences,
    signed,
    tally,
    verdict_line,
)
from paper.pages.variants.spec import Arm, Contrast, Expected, Metric, Prediction, Study, against

ABOUT = {"suite": "s", "suite_version": 1, "norm": "Linf", "epsilon": "0.1", "samples": 10_000}


Gaps = dict[str, tuple[int, int, int]]
CLOSE: Gaps = {"close": (100, 200, 240)}  # +1.8 points [+0.01, +3.6]: t = 4.32, p = 0.0497
NOTHING: Gaps = {f"none-{place}": (-100, 100, 10 * place) for place in range(5)}
SURE: Gaps = {f"sure-{place}": (300, 301, 303) for place in range(5)}


def compared(gaps: Gaps, name: str = "made-up", metric: Metric = "clean") -> Results:
    """Each arm against one reference in one measure: by how many of 10,000 images it is ahead, seed by seed."""
    arms = ("reference", *gaps)
    study = Study(name, "t", "a", tuple(Arm(arm, arm, arm) for arm in arms), against("reference", tuple(gaps), metric))
    measured = "robust" if metric == "worst" else metric
    same = {"clean": [5000, 10_000], "robust": [5000, 10_000], "settings": {}, "stages": {}, "test_accuracy": [0.5]}
    rows: list[dict[str, Any]] = [
        {**same, "arm": arm, "seed": seed, measured: [5000 + gap, 10_000]}
        for arm, values in {"reference": (0, 0, 0), **gaps}.items()
        for seed, gap in enumerate(values)
    ]
    return from_table(study, {"about": ABOUT, "runs": rows})


def test_a_p_value_by_hand_and_at_its_limits() -> None:
    # t = 3 / 1.5275 = 1.964 at two degrees of freedom: P(|T| > t) = 1 - t / √(2 + t²)
    assert Difference((1.0, 2.0, 6.0)).p_value == pytest.approx(1 - 1.9640 / (2 + 1.9640**2) ** 0.5, abs=1e-4)
    assert Difference((2.0, 2.0, 2.0)).p_value == 0
    assert Difference((0.0, 0.0, 0.0)).p_value == 1
    assert Difference((1.0,)).p_value == 1


@pytest.mark.parametrize("values", [(1.0, 2.0, 6.0), (4.0, 5.0, 6.0), (-1.0, -1.1, -1.3), (0.2, 0.3, -0.1, 0.6)])
def test_an_interval_leaves_out_zero_where_its_test_is_below_5_percent(values: tuple[float, ...]) -> None:
    found = Difference(values)
    assert found.leaves_out_zero == (found.p_value < 0.05)


def test_a_p_value_agrees_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    for values in ((1.0, 2.0, 6.0), (-4.0, 5.0, 6.0, 1.0), (0.1, 0.2, 0.35)):
        assert Difference(values).p_value == pytest.approx(stats.ttest_1samp(values, 0).pvalue, rel=1e-9)


def test_a_difference_that_stands_alone_may_not_stand_among_many() -> None:
    assert lasting([compared(CLOSE)]) == {("made-up", Contrast("close", "reference", "clean"))}
    assert lasting([compared({**CLOSE, **NOTHING})]) == frozenset()
    kept = lasting([compared({**CLOSE, **SURE})])
    assert {contrast.arm for _, contrast in kept} == {"close", *SURE}  # one in twenty of those kept may be false


def test_comparisons_of_several_studies_are_counted_together() -> None:
    assert lasting([compared(CLOSE), compared(NOTHING, "another")]) == frozenset()


@pytest.mark.parametrize("seed", range(5))
def test_what_outlasts_its_number_agrees_with_scipy(seed: int) -> None:
    stats, draw = pytest.importorskip("scipy.stats"), random.Random(seed)
    gaps: Gaps = {
        f"arm-{place}": (size + draw.randrange(90), size + draw.randrange(90), size + draw.randrange(90))
        for place, size in enumerate(range(-40, 140, 10))
    }
    chances = [Difference(tuple(float(value) for value in values)).p_value for values in gaps.values()]
    corrected = stats.false_discovery_control(chances)
    wanted = {arm for arm, chance in zip(gaps, corrected, strict=True) if chance <= 0.05}
    assert {contrast.arm for _, contrast in lasting([compared(gaps)])} == wanted
    assert 0 < len(wanted) < len(gaps)


# What the page says of a difference that does not outlast their number


def test_a_difference_that_does_not_outlast_is_not_called_real() -> None:
    alone, among = compared(CLOSE), compared({**CLOSE, **NOTHING})
    told = "\n".join(sentences(alone, lasting([alone])))
    assert "**Helps:** close against reference, clean accuracy +1.8 points [+0.01, +3.6], n = 3." in told
    assert "closest call among the differences seen is close against" in told
    told = "\n".join(sentences(among, lasting([among])))
    assert "**May be chance:** close against reference, clean accuracy +1.8† points [+0.01, +3.6], n = 3." in told
    assert "Helps" not in told
    assert "closest call" not in told
    assert "**No difference seen** in 5 of 6 comparisons" in told


def test_the_line_of_a_study_calls_nothing_real_that_may_be_chance() -> None:
    alone, among = compared(CLOSE, metric="worst"), compared({**CLOSE, **NOTHING}, metric="worst")
    assert verdict_line(alone, lasting([alone])) == "helps: close"
    assert verdict_line(among, lasting([among])) == "may be chance: close"
    sure = ("made-up", Contrast("close", "reference", "worst"))
    again = Contrast("close", "none-0", "worst")  # seen as well, and not kept
    twice = replace(among, study=replace(among.study, contrasts=(*among.study.contrasts, again)))
    assert verdict_line(twice, frozenset([sure])) == "helps: close"


@pytest.mark.parametrize(
    ("expected", "alone", "among"),
    [
        ("helps", "came true", "undecided"),
        ("hurts", "did not come true", "undecided"),
        ("equal", "did not come true", "undecided"),
        ("does not help", "did not come true", "undecided"),
    ],
)
def test_a_prediction_is_not_settled_by_what_may_be_chance(expected: Expected, alone: str, among: str) -> None:
    results = compared({**CLOSE, **NOTHING})
    contrast = Contrast("close", "reference", "clean")
    prediction = Prediction("x", "y", (contrast,), expected)
    assert outcome(results, prediction, frozenset([("made-up", contrast)])) == alone
    assert outcome(results, prediction, lasting([results])) == among


def test_what_only_a_prediction_compares_is_one_of_the_comparisons_too() -> None:
    results = compared(CLOSE)
    spoken = Prediction("x", "y", (*results.study.contrasts, *against("reference", ("close",), "early")), "helps")
    more = replace(results, study=replace(results.study, predictions=(spoken,)))
    assert tally([more]).startswith("2 comparisons in all: 1 intervals leave out zero")
    assert lasting([more]) == frozenset()  # 0.0497 of two is not below 0.025, and the other is not below 0.05


def test_the_page_corrects_all_its_studies_together_and_says_so() -> None:
    page = variants_page([compared(CLOSE), compared(NOTHING, "another")])
    assert "keeps 0 of them; 1 difference that it does not keep is marked †" in page
    assert "All comparisons of this page are corrected together" in page
    assert "**May be chance:** close against reference, clean accuracy +1.8† points" in page
    assert "†" not in variants_page([compared(CLOSE)]).replace("*may be chance* (†)", "")


def test_how_many_outlast_their_number_is_told() -> None:
    every = [compared({**CLOSE, **SURE})]
    assert many(every, lasting(every)).endswith("keeps 6 of them; no difference is lost by it.")
    assert "keeps 5 of them; 1 difference that it does not keep is marked †" in many(
        every, frozenset(each for each in lasting(every) if each[1].arm != "close")
    )
    assert "6 differences that it does not keep are marked †" in many(every, frozenset())


def test_the_tally_sets_what_was_seen_beside_what_chance_would_show() -> None:
    gaps = {"large": (300, 310, 320), "small": (30, 31, 32), "none": (-100, 100, 0)}
    told = tally([compared(gaps)])
    assert told.startswith("3 comparisons in all: 2 intervals leave out zero, 1 of them with a difference of 1 point")
    assert "about 0 would leave out zero" in told


@pytest.mark.parametrize(
    ("value", "told"),
    [
        *((-0.04, "−0.04"), (0.04, "+0.04"), (-0.002, "−0.002"), (0.05, "+0.1"), (-0.3, "−0.3"), (12.34, "+12.3")),
        *((0.0, "+0.0"), (-0.0, "+0.0"), (1e-9, "+0.0"), (-1e-9, "+0.0")),
    ],
)
def test_the_sign_is_right_where_a_number_rounds_to_zero(value: float, told: str) -> None:
    assert signed(value) == told


def test_an_interval_with_zero_in_it_does_not_look_as_if_it_ended_there() -> None:
    assert effect(Difference((0.6, 1.4, 1.08))).startswith("+1.0 points [+0.03, +2.0]")
    assert effect(Difference((0.58, 1.42, 1.08))).startswith("+1.0 points [−0.02, +2.1]")
