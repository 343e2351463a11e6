"""What the claims on cost and on convergence say of trainings that are made up for them."""

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
from made_up_summaries import run, shelf

from paper.pages.both import HUNDRED as CIFAR100
from paper.pages.both import TEN
from paper.pages.claims import RULES, claims
from paper.pages.judging import Judgement
from paper.pages.models import ADVERSARIAL_CIFAR100, TABLE_4
from paper.pages.pictures import training
from paper.pages.steps import StepPairs, Steps
from paper.summaries import RunSummary

SCE, MMC = "cifar10-sce", "cifar10-mmc"
BENCHMARK = Steps(
    "NVIDIA H200",
    "python benchmarks/train_step.py --device cuda",
    (StepPairs(50, 200, 1.1, 1.0, 1.2), StepPairs(128, 200, 1.0, 0.974, 1.033), StepPairs(512, 40, 1.3, 1.2, 1.4)),
)


def settings(batch: int, epochs: int = 1, rate: float | None = None, loss: str = "") -> dict[str, Any]:
    train = {"epochs": epochs, "batch_size": batch, **({} if rate is None else {"lr": rate})}
    return {"train": train, "model": {"backbone": "resnet32"}, "loss": {"name": loss}}


def cost(*runs: RunSummary, steps: Steps | None = BENCHMARK) -> Judgement:
    return RULES["cost"](replace(shelf(*runs), steps=steps))


def convergence(sce: list[float], mmc: list[float]) -> Judgement:
    return RULES["convergence"](shelf(run(SCE, sce), run(MMC, mmc)))


def row(judgement: Judgement, level: str) -> list[str]:
    line = next(line for line in judgement.evidence.splitlines() if line.startswith(f"| {level} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


# Cost


@pytest.mark.parametrize(
    ("batches", "verdict", "said"),
    [
        ((128, 128), "holds", "1.000 times as long as one of SCE: the median of 200 pairs"),
        ((50, 50), "holds in part", "batches of 50 as in the runs, NVIDIA H200"),
        ((256, 256), "does not hold", "batches of 512, NVIDIA H200"),  # nobody timed the runs' batch: the largest
        ((50, 128), "does not hold", "batches of 512, NVIDIA H200"),  # the runs have none in common
    ],
)
def test_steps_are_those_of_the_batch_of_the_runs(batches: tuple[int, int], verdict: str, said: str) -> None:
    runs = [
        run(name, [9.0], sharing=2, settings=settings(batch)) for name, batch in zip((SCE, MMC), batches, strict=True)
    ]
    judgement = cost(*runs)
    assert judgement.verdict == verdict
    assert said in judgement.reason


def test_a_benchmark_is_told_with_its_spread_and_with_what_it_does_not_know() -> None:
    told = cost(*(run(name, [9.0], sharing=2, settings=settings(128)) for name in (SCE, MMC))).reason
    assert "with quartiles of 0.974 and 1.033" in told
    assert "`python benchmarks/train_step.py --device cuda`" in told
    assert "whether the device did other work meanwhile is not recorded" in told
    assert "not of the engine that the runs were trained with" in told


def test_steps_decide_without_any_run_but_not_where_runs_can_be_compared() -> None:
    assert "1.300 times as long" in cost().reason
    alone = cost(run(SCE, [9.0], 10), run(MMC, [9.0], 12))
    assert (alone.verdict, "pairs" in alone.reason) == ("holds in part", False)
    assert cost(steps=None).verdict == "not measured"


def test_that_adversarial_training_takes_longer_is_not_judged_and_the_page_says_so() -> None:
    said = "How many times as long adversarial training takes is not judged."
    assert said in cost().reason
    assert said in cost(run(SCE, [9.0]), run(MMC, [9.0])).reason
    assert said in next(claim.rule for claim in claims() if claim.key == "cost")


# Convergence

SLOW, FAST = [40.0] * 6 + [7.0] * 6, [40.0] * 3 + [7.0] * 9


@pytest.mark.parametrize(
    ("sce", "mmc", "verdict", "said"),
    [
        (SLOW, FAST, "holds", "first at 5 (30 %, 20 %, 15 %, 10 % and 8 %), tied at none and behind at none"),
        (SLOW, [29.0] * 6 + [7.0] * 6, "holds in part", "first at 1 (30 %), tied at 4 (20 %, 15 %, 10 % and 8 %)"),
        (SLOW, [29.0] * 12, "undecided", "first at 1 (30 %), tied at none and behind at 4 (20 %, 15 %, 10 % and 8 %)"),
        (SLOW, SLOW, "does not hold", "first at none, tied at 5"),
        (FAST, SLOW, "does not hold", "first at none, tied at none and behind at 5"),
        ([40.0] * 6 + [25.0] * 6, [25.0] * 12, "holds", "Of 1 levels of the test error MMC-10 is first at 1 (30 %),"),
        ([40.0] * 12, [25.0] * 12, "holds", "first at 1 (30 %)"),  # the other never comes down
        (SLOW, [40.0] * 12, "does not hold", "behind at 5"),
        ([50.0] * 12, [40.0] * 12, "not measured", "Neither SCE nor MMC-10"),
    ],
)
def test_a_training_is_first_tied_or_behind(sce: list[float], mmc: list[float], verdict: str, said: str) -> None:
    judgement = convergence(sce, mmc)
    assert judgement.verdict == verdict, judgement.reason
    assert said in judgement.reason


@pytest.mark.parametrize(("sooner", "verdict"), [(0, "does not hold"), (2, "does not hold"), (3, "holds")])
def test_two_epochs_apart_are_a_tie(sooner: int, verdict: str) -> None:
    assert convergence(SLOW, [40.0] * (6 - sooner) + [7.0] * (6 + sooner)).verdict == verdict
    behind = convergence([40.0] * (6 - sooner) + [7.0] * (6 + sooner), SLOW).reason
    assert ("behind at 5" if sooner > 2 else "tied at 5") in behind


def test_one_dip_is_no_arrival_since_medians_are_compared_as_in_the_figure() -> None:
    dips = [40.0] * 2 + [7.0] + [40.0] * 3 + [7.0] * 6
    judgement = convergence(SLOW, dips)
    assert judgement.verdict == "does not hold"
    assert row(judgement, "8 %") == ["epoch 7 (1 min 10 s)"] * 2


def test_a_curve_that_rises_again_is_told_with_the_epoch_from_which_it_stays() -> None:
    falls = [40.0] * 3 + [14.0] * 5
    judgement = convergence([*falls, *[16.0] * 5, *[14.0] * 5], [*falls, *[16.0] * 10])
    assert row(judgement, "15 %") == ["epoch 4 (40.0 s), for good from 14", "epoch 4 (40.0 s), not for good"]
    assert row(judgement, "20 %") == ["epoch 4 (40.0 s)"] * 2
    assert row(judgement, "10 %") == ["never"] * 2


def test_an_error_that_is_exactly_a_level_has_come_down_to_it() -> None:
    assert row(convergence([15.0] * 3, [15.0] * 3), "15 %") == ["epoch 1 (10.0 s)"] * 2  # 100 * (1 - 0.85) > 15


def test_the_ends_and_the_learning_rates_are_told() -> None:
    sce, mmc = (
        run(name, errors, settings=settings(128, 12, rate, loss))
        for name, errors, rate, loss in ((SCE, [*SLOW[:-1], 6.15], 0.1, "sce"), (MMC, FAST, 0.05, "mmc"))
    )
    judgement = RULES["convergence"](shelf(sce, mmc))
    assert (
        "one training of each; at the end the test error of SCE is 6.15 % and that of MMC-10 7.00 %."
        in judgement.reason
    )
    assert "| SCE (batch 128, learning rate 0.1) | MMC-10 (batch 128, learning rate 0.05) |" in judgement.evidence
    assert judgement.reason.endswith(" Their learning rates differ, so the loss is not all that sets the two apart.")
    trials = [
        run(f"tune-{loss}-{rate}", [9.0], settings=settings(128, 1, rate, loss))
        for loss, rate in (("sce", 0.1), ("mmc", 0.05))
    ]
    assert (
        "each [chosen from trials](README.md#tuning) of its loss,"
        in RULES["convergence"](shelf(sce, mmc, *trials)).reason
    )
    assert "chosen" not in RULES["convergence"](shelf(sce, mmc, trials[0])).reason
    same = replace(mmc, settings=settings(128, 12, 0.1, "mmc"))
    assert "differ" not in RULES["convergence"](shelf(sce, same)).reason


def test_a_training_whose_test_errors_nobody_wrote_down_is_behind_nobody() -> None:
    blind = run(SCE, SLOW)
    for entry in blind.epochs:
        entry["test_accuracy"] = None
    judgement = RULES["convergence"](shelf(blind, run(MMC, FAST)))
    assert (judgement.verdict, judgement.reason) == (
        "not measured",
        "The test errors of SCE and MMC-10 were not both written down.",
    )


def test_cifar100_has_levels_of_its_own_which_the_rule_names() -> None:
    slow, fast = [80.0] * 6 + [31.0] * 6, [80.0] * 3 + [31.0] * 9
    hundred = [run("cifar100-sce", slow), run("cifar100-mmc", fast)]
    ahead = RULES["convergence"](shelf(run(SCE, SLOW), run(MMC, FAST), *hundred))
    assert ahead.verdict == "holds"
    assert "CIFAR-100: holds. Of 5 levels of the test error MMC-10 is first at 5 (60 %, 50 %," in ahead.reason
    rule = next(claim.rule for claim in claims() if claim.key == "convergence")
    for scene in (TEN, CIFAR100):
        *most, last = (f"{level:g}" for level in scene.levels)
        assert f"{', '.join(most)} and {last} %" in rule
    turned = [run("cifar100-sce", fast), run("cifar100-mmc", slow)]
    behind = RULES["convergence"](shelf(run(SCE, SLOW), run(MMC, FAST), *turned))
    assert behind.verdict == "holds in part"
    assert "CIFAR-100: does not hold. " in behind.reason


def test_a_trial_on_other_data_chose_nothing() -> None:
    sce, mmc = (
        run(name, errors, settings={**settings(128, 12, rate, loss), "data": {"source": "cifar100"}})
        for name, errors, rate, loss in (("cifar100-sce", SLOW, 0.1, "sce"), ("cifar100-mmc", FAST, 0.05, "mmc"))
    )
    trials = [run(f"tune-{x.name}", [9.0], settings={**x.settings, "data": {"source": "cifar10"}}) for x in (sce, mmc)]
    assert "chosen" not in RULES["convergence"](shelf(sce, mmc, *trials)).reason


# The figure


@pytest.mark.parametrize(
    ("names", "is_the_papers"), [((SCE, MMC), True), (TABLE_4, False), (ADVERSARIAL_CIFAR100, False)]
)
def test_only_the_curves_on_cifar10_are_called_the_papers_figure(names: tuple[str, ...], is_the_papers: bool) -> None:
    svg = training(shelf(*(run(name, FAST) for name in names)), names)
    texts = ["".join(node.itertext()) for node in ElementTree.fromstring(svg).iter()]
    assert any("Test error by training time on CIFAR-10" in text for text in texts)
    assert any("Figure 3a" in text for text in texts) == is_the_papers
