"""Many comparisons on one page: p values, which differences outlast them, and signs of numbers close to zero."""

from typing import Any

import pytest

from maxmahal.report.published.variants.paired import Difference
from maxmahal.report.published.variants.results import Results, from_table
from maxmahal.report.published.variants.rules import effect, lasting, signed, tally
from maxmahal.report.published.variants.spec import Arm, Contrast, Study, against

ABOUT = {"suite": "s", "suite_version": 1, "norm": "Linf", "epsilon": "0.1", "samples": 10_000}


def compared(gaps: dict[str, tuple[int, int, int]], name: str = "made-up") -> Results:
    """Each arm against one reference in clean accuracy: by how many of 10,000 images it is ahead, seed by seed."""
    arms = ("reference", *gaps)
    study = Study(name, "t", "a", tuple(Arm(arm, arm, arm) for arm in arms), against("reference", tuple(gaps), "clean"))
    rows: list[dict[str, Any]] = [
        {"arm": arm, "seed": seed, "clean": [5000 + gap, 10_000]}
        for arm, values in {"reference": (0, 0, 0), **gaps}.items()
        for seed, gap in enumerate(values)
    ]
    more = {"settings": {}, "robust": [0, 10_000], "stages": {}, "test_accuracy": [0.5]}
    return from_table(study, {"about": ABOUT, "runs": [{**row, **more} for row in rows]})


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
    close = {"close": (100, 200, 240)}  # t = 4.32, p = 0.0497
    assert lasting([compared(close)]) == {("made-up", Contrast("close", "reference", "clean"))}
    nothing: dict[str, tuple[int, int, int]] = {f"none-{place}": (-100, 100, 10 * place) for place in range(5)}
    assert lasting([compared({**close, **nothing})]) == frozenset()
    sure: dict[str, tuple[int, int, int]] = {f"sure-{place}": (300, 301, 303) for place in range(5)}
    kept = lasting([compared({**close, **sure})])
    assert {contrast.arm for _, contrast in kept} == {"close", *sure}  # one in twenty of those kept may be false


def test_comparisons_of_several_studies_are_counted_together() -> None:
    nothing: dict[str, tuple[int, int, int]] = {f"none-{place}": (-100, 100, 10 * place) for place in range(5)}
    assert lasting([compared({"close": (100, 200, 240)}), compared(nothing, "another")]) == frozenset()


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
