"""Whether the long AT (SCE) is a fair baseline: well trained, or a little off in one way and better in the other."""

import pytest
from made_up_summaries import shelf, summary

from maxmahal.report.published.adversarial import baseline, why_unfair


@pytest.mark.parametrize(
    ("clean", "pgd", "said"),
    [
        (80.0, 45.0, "is a fair baseline"),
        (76.0, 41.0, "is a fair baseline"),
        (75.4, 56.9, "counted as a fair baseline: it has clean 75.4 % and PGD-50 un 56.9 %"),
        (80.0, 40.5, "counted as a fair baseline"),
        (75.4, 41.2, "not yet a fair baseline"),  # what is missing is not made up for
        (74.0, 56.9, "not yet a fair baseline"),  # too much is missing
    ],
)
def test_what_is_said_of_the_baseline(clean: float, pgd: float, said: str) -> None:
    found = shelf(summary("cifar10-at-un-sce", "paper-table1", clean=clean, stages={"pgd50-un-8": pgd}))
    assert said in baseline(found)
    assert bool(why_unfair(found)) == ("not yet" in said)


def test_without_numbers_nothing_is_fair() -> None:
    assert "has not been measured" in baseline(shelf())
    assert baseline(shelf()) == why_unfair(shelf())
