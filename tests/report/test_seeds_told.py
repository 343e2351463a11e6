"""How many trainings stand behind a number is counted in the records, so that no page says one where there are more."""

import pytest
from made_up_summaries import run, shelf, summary

from maxmahal.evaluate.summary import RunSummary
from maxmahal.report.published import card
from maxmahal.report.published.hierarchical import hm_note
from maxmahal.report.published.hm_pair import HM
from maxmahal.report.wording import counted

CARD, MODEL = "cifar10-at-mmc", "cifar10-at-un-mmc"


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((0,), "no seeds"),
        ((1,), "one seed"),
        ((3,), "three seeds"),
        ((3, 3), "three seeds"),
        ((5, 4, 3), "three to five seeds"),
        ((1, 2), "one to two seeds"),
        ((12, 13), "twelve to 13 seeds"),
    ],
)
def test_counts_in_words(counts: tuple[int, ...], said: str) -> None:
    assert counted("seed", *counts) == said


def trained(name: str) -> RunSummary:
    return run(name, [30.0], settings={"train": {"epochs": 1, "seed": 0}})


@pytest.mark.parametrize(("seeds", "said"), [(0, "one seed"), (1, "two seeds"), (4, "five seeds")])
def test_hm_says_with_how_many_seeds_it_was_trained(seeds: int, said: str) -> None:
    runs = [trained(HM), *(trained(f"{HM}-seed{seed + 1}") for seed in range(seeds))]
    assert f"and was trained with {said}." in hm_note(shelf(*runs))


@pytest.mark.parametrize("attacked", [True, False])
def test_a_card_says_whether_other_seeds_were_trained(attacked: bool) -> None:
    alone = card(shelf(trained(MODEL)), CARD)
    assert "| 0; one training, so its spread over seeds is not known |" in alone
    names = [f"{MODEL}-seed{seed}" for seed in (1, 2)]
    more = [summary(name, "strict") if attacked else trained(name) for name in names]
    assert "| 0; one of three trainings, a seed each |" in card(shelf(trained(MODEL), *more), CARD)
