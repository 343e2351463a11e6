"""How many trainings and trials stand behind a number is counted in the records, and not typed into pages."""

import pytest
from made_up_summaries import run, shelf, summary

from maxmahal.report.wording import counted
from paper.pages import card
from paper.pages.borrowed import borrowed
from paper.pages.hierarchical import hm_note
from paper.pages.hm_pair import HM
from paper.pages.trainings import tuning_table
from paper.summaries import RunSummary

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


def of(name: str, loss: str, centers: str = "max-mahalanobis", rate: float = 0.1) -> RunSummary:
    settings = {
        "data": {"source": "cifar100" if "cifar100" in name else "cifar10"},
        "model": {"backbone": "resnet32"},
        "loss": {"name": loss},
        "centers": {"name": centers},
        "method": {"name": "standard"},
        "train": {"epochs": 1, "batch_size": 128, "lr": rate, "weight_decay": 2e-4},
    }
    return run(name, [30.0], settings=settings)


BOTH = ("cifar10", "cifar100")
LENDERS = [of(f"{data}-{loss}", loss) for data in BOTH for loss in ("mmc", "sce")]
RANDOM = [of(f"{data}-mmc-rand", "mmc", "random") for data in BOTH]
CENTER = [of(f"{data}-center", "center") for data in BOTH]
TREE = of(HM, "mmc", "hierarchical")


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        (
            [*RANDOM, TREE, CENTER[1]],
            "random centers and, on CIFAR-100, hierarchical ones (HM) take MMC's settings, center loss SCE's there",
        ),
        (
            [*RANDOM, TREE, *CENTER, of("tune-center", "center")],
            "random centers and, on CIFAR-100, hierarchical ones (HM) take MMC's settings, center loss SCE's there",
        ),
        ([RANDOM[0], *CENTER], "on CIFAR-10, random centers take MMC's settings, center loss SCE's"),
        ([TREE, CENTER[0]], "on CIFAR-100, hierarchical ones (HM) take MMC's settings, center loss SCE's on CIFAR-10"),
        ([*RANDOM, TREE, of("tune-cifar100-hm", "mmc", "hierarchical")], "random centers take MMC's settings"),
        ([*RANDOM, of("tune-mmc", "mmc")], "random centers take MMC's settings"),
        ([CENTER[1]], "on CIFAR-100, center loss takes SCE's settings"),
        (CENTER, "center loss takes SCE's settings"),
        ([of("cifar10-center", "center", rate=0.2)], ""),  # settings of its own, wherever they come from
        ([], ""),
    ],
)
def test_who_has_no_trials_is_found_among_these(runs: list[RunSummary], said: str) -> None:
    things = shelf(*LENDERS, *runs)
    assert borrowed(things) == said
    told = tuning_table(shelf(*LENDERS, *runs, of("tune-other", "lgm")))
    ending = f", and some have no trials of their own: {said}." if said else "."
    assert f"so that their curves can be compared{ending}\n" in f"{told}\n"


@pytest.mark.parametrize(
    ("trials", "said"), [(0, "without trials of its own"), (1, "after one trial of its own"), (3, "after three trials")]
)
def test_hm_says_whether_its_settings_were_tried(trials: int, said: str) -> None:
    tried = [of(f"tune-cifar100-hm-{each}", "mmc", "hierarchical", 0.1 * each) for each in range(trials)]
    others = [of("tune-cifar100-mmc", "mmc"), of("tune-hm", "mmc", "hierarchical")]
    assert f"MMC-10's loss and learning rate (0.1) {said}" in hm_note(shelf(*LENDERS, TREE, *others, *tried))
