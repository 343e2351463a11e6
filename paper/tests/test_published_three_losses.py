"""Adversarial training of three losses on CIFAR-100: all pairs of them, and what makes a difference hard to read."""

import math
from dataclasses import replace
from typing import Any

import pytest
from made_up_summaries import run, shelf, summary

from maxmahal.settings import to_table
from maxmahal.train import load_settings
from paper import own
from paper.pages import card, index, readme_block, results_page
from paper.pages.claims import RULES
from paper.pages.hundred import compared, losses_note, losses_pairs, losses_table, losses_verdict
from paper.pages.missing import missing_list
from paper.pages.models import ADVERSARIAL_CIFAR100, title_of
from paper.pages.rates import other_rates, rates_note
from paper.pages.trainings import cost_table, tuning_table
from paper.pages.undertrained import caution, rise, silent_loss, undertrained
from paper.summaries import RunSummary, Summary

AT_SCE, AT_MMC, AT_HM = ADVERSARIAL_CIFAR100
PRESETS = {AT_SCE: "cifar100-at-sce-long", AT_MMC: "cifar100-at-mmc-long", AT_HM: "cifar100-at-hm-long"}


def attacked(model: str, robust: float, suite: str = "autoattack", **changes: Any) -> Summary:
    """Nobody wrote down its settings: these come from trainings."""
    facts = {"data": "cifar100", "data_fingerprint": "images of CIFAR-100", **changes}
    return replace(summary(model, suite, robust=robust, **facts), model={})


def trained(
    name: str, model: str, rate: float = 0.2, pgd: float = 0.2, clean: float = 0.4, **changes: Any
) -> RunSummary:
    """With the settings of a preset: two epochs, of which the first came to less."""
    settings = to_table(load_settings(own("preset", PRESETS[model])))
    settings["train"] = {**settings["train"], "lr": rate, **changes}
    entries = [
        {"epoch": 1, "train_loss": 50.2, "test_accuracy": clean - 0.03, "validation_pgd10": 0.01},
        {"epoch": 2, "train_loss": 44.4, "test_accuracy": clean, "validation_pgd10": pgd, "validation_accuracy": clean},
    ]
    return replace(run(name, [60.0]), settings=settings, epochs=tuple(entries))


THREE = [attacked(AT_SCE, 20), attacked(AT_MMC, 23), attacked(AT_HM, 19.9)]


def test_every_two_losses_are_paired_checkpoint_by_checkpoint() -> None:
    best = [attacked(f"{name}-best", 21, samples=1000) for name in (AT_SCE, AT_MMC)]
    things = shelf(*THREE, *best, attacked(AT_SCE, 20, "strict"))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in losses_pairs(things).splitlines()[2:]]
    told = {tuple(row[:4]): row[4:] for row in rows}
    mmc, hm, sce = "AT (MMC-10)", "AT (HM)", "AT (SCE)"
    assert told["last", "autoattack", mmc, sce][2] == "+3.0 points, p < 0.001 (60 to 0 of 2,000 images)"
    assert told["last", "autoattack", hm, sce][2].startswith("−0.1 points, p = 0.500")
    assert told["last", "autoattack", hm, mmc][2] == "−3.1 points, p < 0.001 (0 to 62 of 2,000 images)"
    assert told["last", "strict", hm, sce] == ["not run", "20.0 % [18.3, 21.8]", "not run"]
    assert ("last", "strict", hm, mmc) not in told, "a row without a number"
    assert told["best", "autoattack", mmc, sce][2] == "0.0 points, p = 1.000 (0 to 0 of 1,000 images)"
    verdict = losses_verdict(things)
    assert "p by Holm's method over these 3 comparisons, intervals of 95 % for all of them together: AT (MMC" in verdict
    assert "AT (HM) is behind AT (MMC-10): −3.1 points [" in verdict
    assert "On clean images: AT (SCE) 80.0 %, AT (MMC-10) 80.0 % and AT (HM) 80.0 %. One training seed each" in verdict
    assert f"| {AT_SCE}-best |" in losses_table(things)
    assert f"| {AT_HM}-best |" not in losses_table(things)


def test_tests_and_intervals_are_corrected_for_all_pairs_of_a_suite() -> None:
    models = [attacked(AT_SCE, 20, samples=1000), attacked(AT_MMC, 19.4, samples=1000)]
    (two,) = compared(shelf(*models))
    assert [two.chance, two.confidence] == pytest.approx([2 * 0.5**6, 0.95])
    assert "AT (MMC-10) is behind AT (SCE): −0.6 points [−1.1, −0.1], p = 0.031" in losses_verdict(shelf(*models))
    three = compared(shelf(*models, attacked(AT_HM, 20, samples=1000)))
    assert three[0].chance == pytest.approx(3 * 2 * 0.5**6)
    assert three[0].confidence == pytest.approx(1 - 0.05 / 3)


def test_models_that_few_images_do_not_tell_apart_are_not_called_equal() -> None:
    few = [attacked(AT_SCE, 20, samples=1000), attacked(AT_MMC, 19.8, samples=1000)]
    told = losses_verdict(shelf(*few))
    assert "not to be told apart from AT (SCE): −0.2 points [−0.5, +0.1], p = 0.500" in told
    assert "1,000 images cannot tell" in told
    assert "`maxmahal reproduce paper/grids/adversarial-cifar100-whole.toml`" in told
    apart = losses_verdict(shelf(few[0], attacked(AT_MMC, 15, samples=1000)))
    assert "cannot tell" not in apart
    every = losses_verdict(shelf(*(attacked(name, 20, samples=10_000) for name in (AT_SCE, AT_MMC))))
    assert "cannot tell" not in every


def test_short_budgets_and_seeds_are_compared_among_themselves() -> None:
    things = shelf(*(attacked(f"{name}-short-seed1", 20) for name in (AT_SCE, AT_MMC)))
    assert "| short, seed1, last | autoattack | AT (MMC-10) | AT (SCE) |" in losses_pairs(things)
    assert losses_verdict(things) == ""
    assert title_of(things, f"{AT_SCE}-short-seed1") == "at-sce-short-seed1"


def test_without_adversarial_training_its_section_is_a_sentence() -> None:
    things = shelf(summary("cifar100-sce", "strict", data="cifar100"))
    assert losses_table(things).endswith("`maxmahal reproduce paper/grids/adversarial-cifar100.toml` fills it.")
    assert losses_pairs(things) == losses_verdict(things) == rates_note(things) == ""
    assert undertrained(things, ADVERSARIAL_CIFAR100) == ""


def test_a_best_checkpoint_says_how_it_was_chosen_and_whether_it_is_the_last() -> None:
    result = {"best": {"epoch": 2, "validation_pgd10": 0.2}, "last": {"epoch": 2}}
    runs = [replace(trained(name, name), result=result) for name in (AT_SCE, AT_HM)]
    best = attacked(f"{AT_HM}-best", 20)
    told = losses_note(shelf(*THREE, *runs, best, attacked(f"{AT_SCE}-best", 20)))
    assert "Best: the checkpoint of the epoch with the highest PGD-10 accuracy on held-out images." in told
    assert "with the same weights" not in told
    same = replace(best, model_fingerprint=f"weights of {AT_HM}")
    assert "Of AT (HM) it is the last one, with the same weights" in losses_note(shelf(*THREE, *runs, same))
    assert "Best:" not in losses_note(shelf(*THREE, *runs))
    ten = [summary(name, "autoattack", robust=20) for name in ("cifar10-at-un-sce", "cifar10-at-un-sce-best")]
    assert "Best: the checkpoint of the epoch with a score that was not recorded." in results_page(shelf(*ten), [])


def trial(rate: float, pgd: float, clean: float) -> RunSummary:
    return trained(f"tune-{AT_HM}-lr{rate:g}", AT_HM, rate, pgd, clean)


ALIKE = [
    trained("trees-at-mmc-seed0", AT_MMC, 0.2, 0.176, 0.313),
    trained("trees-at-orthogonal-1-seed0", AT_HM, 0.2, 0.172, 0.305),
]
TRIALS = [trial(0.1, 0.134, 0.1965), trial(0.2, 0.134, 0.1985)]


def test_rates_that_differ_are_told_with_what_equal_ones_say() -> None:
    runs = [trained(AT_SCE, AT_SCE), trained(AT_MMC, AT_MMC), trained(AT_HM, AT_HM, 0.1)]
    told = losses_verdict(shelf(*THREE, *runs, *TRIALS, *ALIKE))
    assert "AT (HM) is behind AT (MMC-10), which was trained at another learning rate: " in told
    assert "AT (MMC-10) is ahead of AT (SCE): " in told
    assert "AT (SCE) and AT (MMC-10) at 0.2, AT (HM) at 0.1; across these, centers (or losses) and rate are not" in told
    assert (
        "For AT (HM) the rule for trials (PGD-10 on held-out images, ties by their accuracy) chooses 0.2 (13.40" in told
    )
    assert (
        "ends at 17.2 % under PGD-10 on held-out images and 30.5 % on clean test images, AT on MMC's at 17.6 and"
        in told
    )
    assert "([class trees](trees.md))" in told
    assert "([class trees](../paper/results/trees.md))" in card(shelf(*THREE, *runs, *TRIALS, *ALIKE), AT_HM)
    assert "Learning rates:" in index(shelf(*THREE, *runs), list(ADVERSARIAL_CIFAR100))
    assert "Learning rates:" not in index(shelf(*THREE, *runs), [AT_HM])
    page = readme_block(shelf(*THREE, *runs, *TRIALS, *ALIKE))
    assert "AT (MMC-10) is ahead of AT (SCE); " in page
    assert "AT (HM) is behind AT (MMC-10), which was trained at another learning rate. With intervals" in page
    assert "With intervals, and with what learning rates and too few epochs may explain: [three losses](" in page
    assert "AT, one training seed each, under AutoAttack: " in page
    alike = [trained(name, name) for name in ADVERSARIAL_CIFAR100]
    assert ". With intervals, and with what too few epochs may explain: [" in readme_block(shelf(*THREE, *alike))
    flat = [replace(each, epochs=(each.epochs[-1],) * len(each.epochs)) for each in alike]
    assert ". With intervals: [three losses](" in readme_block(shelf(*THREE, *flat))
    seeds = [attacked(f"{name}-seed1", 20) for name in ADVERSARIAL_CIFAR100]
    assert "AT, under AutoAttack: " in readme_block(shelf(*THREE, *alike, *seeds))
    assert "the same tuning" not in results_page(shelf(*THREE, *runs, *TRIALS, *ALIKE), [])


def test_equal_rates_leave_nothing_to_tell() -> None:
    runs = [trained(name, name) for name in ADVERSARIAL_CIFAR100]
    things = shelf(*THREE, *runs, *TRIALS, *ALIKE)
    assert rates_note(things) == ""
    assert "learning rate" not in losses_verdict(things)
    followed = [*runs[:2], trained(AT_HM, AT_HM, 0.1)]
    assert "the rule for trials" not in rates_note(shelf(*followed, trial(0.1, 0.2, 0.2), TRIALS[1])), "the best one"
    elsewhere = [ALIKE[0], trained("trees-at-orthogonal-1-seed0", AT_HM, 0.1)]
    apart = [*runs[:2], trained(AT_HM, AT_HM, 0.1)]
    assert "Trained alike" not in rates_note(shelf(*THREE, *apart, *elsewhere)), "not at one rate either"


SLOWER = f"{AT_HM}-lr0.1"


def test_another_rate_is_told_beside_its_own_model_and_alone_in_no_row() -> None:
    runs = [trained(AT_HM, AT_HM), trained(SLOWER, AT_HM, 0.1)]
    things = shelf(*THREE, attacked(SLOWER, 22.9), *runs)
    told = "AT (HM) at 0.1 less itself at 0.2 is +3.0 points [+2.2, +3.8], p < 0.001 (60 to 0 of 2,000 images)."
    assert told in losses_verdict(things)
    left = "Of AT (SCE) and AT (MMC-10) no other rate was attacked on the same images (`maxmahal reproduce"
    assert left in other_rates(things)
    assert f"| {SLOWER} |" in losses_table(things)
    assert "lr0.1" not in losses_pairs(things)
    (never,) = [line for line in missing_list(things).splitlines() if "-lr0.1`" in line]
    assert never.startswith("- nothing was run on")
    assert f"`{AT_SCE}-lr0.1`, `{AT_MMC}-lr0.1`" in never.replace(f"`{AT_SCE}-best`, ", "")
    assert f"`{SLOWER}`" not in never
    assert "-lr0.1`" not in missing_list(shelf(*THREE, *runs))
    assert "and with what learning rates and too few epochs may explain" in readme_block(things)
    assert "and with what too few epochs may explain" in readme_block(shelf(*THREE, *runs))
    pair = [attacked(f"{name}-lr0.1", 20) for name in (AT_SCE, AT_MMC)]
    assert "| lr0.1, last | autoattack | AT (MMC-10) | AT (SCE) |" in losses_pairs(shelf(*THREE, *pair))


@pytest.mark.parametrize(("share", "rate", "told"), [(22.9, 0.1, False), (17, 0.1, True), (22.9, 0.4, True)])
def test_higher_rates_are_not_hoped_for_where_a_lower_one_did_better(share: float, rate: float, told: bool) -> None:
    trials = [trial(0.1, 0.2, 0.3), trial(0.2, 0.2, 0.4)]
    other = f"{AT_HM}-lr{rate:g}"
    things = shelf(*THREE, attacked(other, share), trained(AT_HM, AT_HM), trained(other, AT_HM, rate), *trials)
    assert ("AT (HM) took the highest learning rate" in undertrained(things, ADVERSARIAL_CIFAR100)) is told
    scores = (
        "The trials that chose between them, of 2 epochs, had under PGD-10 and clean on held-out images 20.00 and 30"
    )
    assert (scores in other_rates(things)) is (rate == 0.1), "there was no trial of the other one"


def test_several_rates_are_corrected_for_one_another() -> None:
    slower = [attacked(f"{name}-lr0.1", share) for name, share in ((AT_SCE, 20.3), (AT_MMC, 23), (AT_HM, 20.3))]
    runs = [trained(f"{name}{end}", name, rate) for name in PRESETS for end, rate in (("", 0.2), ("-lr0.1", 0.1))]
    told = other_rates(shelf(*THREE, *slower, *runs))
    assert (
        "by AutoAttack, p and intervals for these 3 together: AT (HM) at 0.1 less itself at 0.2 is +0.4 points" in told
    )
    assert "p = 0.023 (8 to 0 of 2,000 images); AT (MMC-10) at 0.1" in told, "three times 0.0078"
    assert "no other rate" not in told


@pytest.mark.parametrize(
    "things",
    [
        [trained(AT_HM, AT_HM), trained(SLOWER, AT_HM, 0.1)],
        [attacked(SLOWER, 22.9)],
        [attacked(SLOWER, 22.9), trained(AT_HM, AT_HM), trained(SLOWER, AT_HM)],
        [attacked(SLOWER, 22.9), trained(AT_HM, AT_HM), trained(SLOWER, AT_HM, 0.1, epochs=80)],
        [attacked(SLOWER, 22.9, samples=1000), trained(AT_HM, AT_HM), trained(SLOWER, AT_HM, 0.1)],
        [attacked("cifar100-mmc-lr0.1", 20), attacked("cifar100-mmc", 20)],
    ],
    ids=["not attacked", "rates not known", "one rate", "other epochs", "other images", "other model"],
)
def test_what_is_not_another_rate_of_the_same_training_is_not_told(things: list[Summary | RunSummary]) -> None:
    assert other_rates(shelf(*THREE, *things)) == ""


def test_a_training_at_another_rate_is_no_use_of_a_trial() -> None:
    trials = [trial(0.1, 0.1, 0.3), trial(0.2, 0.2, 0.3)]
    told = tuning_table(shelf(*trials, trained(AT_HM, AT_HM), trained(SLOWER, AT_HM, 0.1)))
    assert "Used without being the best" not in told
    assert "Used without being the best" in tuning_table(shelf(*trials, trained(AT_HM, AT_HM, 0.1)))


def test_a_row_shows_what_its_difference_is_of() -> None:
    wide = [
        attacked(AT_SCE, 40, samples=10_000),
        attacked(AT_SCE, 20, samples=1000),
        attacked(AT_MMC, 22, samples=1000),
    ]
    (row,) = [line for line in losses_pairs(shelf(*wide)).splitlines() if "| AT (MMC-10) | AT (SCE) |" in line]
    assert "22.0 % [19.5, 24.7]" in row
    assert "20.0 % [17.6, 22.6]" in row
    assert "+2.0 points" in row


def test_a_model_that_answers_nothing_has_the_loss_of_its_settings() -> None:
    losses = {name: silent_loss(trained(name, name)) for name in ADVERSARIAL_CIFAR100}
    assert losses[AT_SCE] == pytest.approx(math.log(100))
    assert losses[AT_MMC] == pytest.approx(50.0)  # centers of length 10 around the origin
    assert losses[AT_HM] == pytest.approx((7.07107**2 + 7.07107**2) / 2, rel=1e-4)
    half = trained(AT_MMC, AT_MMC)
    half.settings["centers"] = {**half.settings["centers"], "norm": 6.0}
    assert silent_loss(half) == pytest.approx(18.0)
    assert silent_loss(run(AT_MMC, [60.0])) is None


def test_trainings_that_were_still_gaining_say_so() -> None:
    curve = [0.30] * 36 + [0.31, 0.32, 0.33, 0.34]
    entries = tuple({"epoch": at + 1, "test_accuracy": value} for at, value in enumerate(curve))
    assert rise(replace(run(AT_MMC, [60.0]), epochs=entries)) == pytest.approx((4.0, 36))
    assert rise(None) is None
    tried = [trained(f"tune-{AT_MMC}-lr{rate:g}", AT_MMC, rate) for rate in (0.1, 0.2)]
    runs = [trained(AT_MMC, AT_MMC, 0.2), trained(AT_HM, AT_HM, 0.1), *TRIALS, *tried]
    told = undertrained(shelf(*runs), ADVERSARIAL_CIFAR100)
    assert told.startswith("Losses on attacked training images, first epoch to last: AT (MMC-10) 50.2 to 44.4 in 2")
    assert "alike has a loss of 50.0 (AT (MMC-10)) and 50.0 (AT (HM))." in told
    assert "still rose: +3.0 points (AT (MMC-10), since epoch 1) and +3.0 points (AT (HM), since epoch 1)." in told
    assert "AT (MMC-10) took the highest learning rate that was tried" in told
    assert "AT (HM) took" not in told
    assert told in results_page(shelf(*THREE, *runs), [])
    settled = replace(runs[0], epochs=tuple({**entry, "test_accuracy": 0.4} for entry in runs[0].epochs))
    assert "still rose" not in undertrained(shelf(settled), ADVERSARIAL_CIFAR100)


def test_a_card_cautions_where_an_adversarial_training_was_still_gaining() -> None:
    told = caution(shelf(trained(AT_MMC, AT_MMC)), AT_MMC)
    assert "since epoch 1 of 2" in told
    assert "rose by 3.0 points; its loss on attacked training images ended at 44.4, and a model that answers" in told
    plain = trained(AT_MMC, AT_MMC)
    plain.settings["method"] = {"name": "standard"}
    assert caution(shelf(plain), AT_MMC) == ""
    assert caution(shelf(replace(trained(AT_MMC, AT_MMC), finished=False)), AT_MMC) == ""


def test_claims_say_what_cifar100_shows_and_are_not_decided_by_it() -> None:
    alone, beside = RULES["at"](shelf()), RULES["at"](shelf(*THREE))
    assert alone.verdict == beside.verdict == "not measured"
    assert "which decides nothing here, AT (MMC-10) less AT (SCE) is +3.0 points [" in beside.reason
    assert "(README.md#adversarial-training-of-three-losses)" in beside.reason
    assert beside.reason.startswith(alone.reason)
    pgd = [
        attacked(name, 50, "paper-table4", stages={"pgd10-tar-8": value, "pgd10-un-8": 15.0})
        for name, value in (("cifar100-mmc", 16.9), ("cifar100-mmc-rand", 15.0))
    ]
    centers = RULES["centers"](shelf(*pgd))
    assert centers.verdict == "not measured"
    assert "PGD-10 tar 8 +1.9 points (38 to 0 of 2,000 images), p < 0.001; PGD-10 un 8 0.0 points" in centers.reason
    assert "(README.md#table-4-pgd-spsa-cw)" in centers.reason
    assert "### Table 4: PGD, SPSA, C&W" in results_page(shelf(*pgd), [])


def test_a_few_images_and_grids_that_were_not_run_are_missing() -> None:
    few = [attacked(AT_MMC, 20, suite, samples=1000, limited=True) for suite in ("strict", "autoattack")]
    told = missing_list(shelf(*few))
    assert f"- `{AT_MMC}`: autoattack and strict on all images (`adversarial-cifar100-whole`)" in told
    assert "on all images" not in missing_list(shelf(*(replace(each, limited=False) for each in few)))
    assert "`trees-" not in told
    models = missing_list(shelf(*few, *ALIKE))
    assert "- `trees-near`: no model of class trees was attacked by strict at 1/255" in models
    assert (
        "- `trees-strict`: trained, and not attacked by strict: `trees-at-mmc-seed0`, `trees-at-orthogonal-1-s"
        in models
    )
    near = attacked("trees-mmc-seed0", 7, "strict", epsilon="1/255", radius=1 / 255)
    done = missing_list(shelf(near, *ALIKE, *(attacked(each.name, 7, "strict") for each in ALIKE)))
    assert "`trees-near`:" not in done
    assert "`trees-strict`:" not in done


def test_trials_of_one_group_that_were_both_used_name_the_trainings() -> None:
    used = [trained(AT_HM, AT_HM, 0.1), trained("trees-at-a", AT_HM, 0.2), trained("trees-at-b", AT_HM, 0.2)]
    table = tuning_table(shelf(*TRIALS, *used))
    assert f"| used by {AT_HM} |" in table
    assert "| used by trees-at-a and 1 more |" in table
    assert "| used |" in tuning_table(shelf(*TRIALS, used[0]))


def test_one_epoch_is_one() -> None:
    table = cost_table(
        shelf(run("cifar10-sce", [90.0], finished=False), run("cifar10-mmc", [90.0] * 2, finished=False))
    )
    assert "`cifar10-sce` (1 epoch) and `cifar10-mmc` (2 epochs)" in table
