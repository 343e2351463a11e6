"""A lead is a paired test and a point of accuracy; what many columns say together is no more than all of them allow."""

import math
from dataclasses import replace

import numpy as np
import pytest
from made_up_summaries import published, stage, summary

from maxmahal.records.statistics import Comparison, Rate, points_apart
from paper.pages.claims import Verdict, counted, leads_table, over_kinds
from paper.pages.compare import (
    Crossed,
    Gap,
    at_budget,
    budgets,
    crossed,
    hm_beside_mmc,
    holm,
    judge_columns,
    leads,
    loss_pairs,
    of_counts,
    of_distances,
    of_images,
    other_rates,
    state_of,
)
from paper.pages.models import ADVERSARIAL_CIFAR100, PGD_8, SHORT, TUNED
from paper.pages.results import Measured
from paper.summaries import Summary

SCE, MMC, CENTER = "cifar10-sce", "cifar10-mmc", "cifar10-center"


def under(model: str, values: dict[str, float], **changes: object) -> Summary:
    return summary(model, "paper-table1", stages=values, **changes)  # type: ignore[arg-type]


def gap(first: int, second: int, total: int = 10_000) -> Gap:
    return of_images(Comparison(first, second, total))


def test_holm_multiplies_by_how_many_are_left() -> None:
    corrected = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert corrected == pytest.approx({"d": 0.02, "a": 0.03, "c": 0.06, "b": 0.06})
    assert holm({"a": 0.6, "b": 0.7}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}


@pytest.mark.parametrize(("only_first", "only_second"), [(0.1, 0.05), (0.03, 0.03), (0.3, 0.02), (0.01, 0.0)])
def test_the_interval_of_a_paired_difference_covers_it(only_first: float, only_second: float) -> None:
    """Summed over every outcome of so few images, weighted by its probability."""
    total, covered = 60, 0.0
    both = 1 - only_first - only_second
    for first in range(total + 1):
        for second in range(total + 1 - first):
            ways = math.comb(total, first) * math.comb(total - first, second)
            chance = ways * only_first**first * only_second**second * both ** (total - first - second)
            low, high = gap(first, second, total).interval()
            covered += chance * (low <= 100 * (only_first - only_second) <= high)
    assert covered >= 0.94


def test_the_interval_of_many_images_is_the_textbooks() -> None:
    low, high = gap(362, 338).interval()
    wald = 1.959964 * math.sqrt(700 - 24**2 / 10_000) / 100
    assert (low, high) == pytest.approx((0.24 - wald, 0.24 + wald), abs=0.01)
    assert gap(362, 338).interval(0.99)[1] > high
    assert gap(362, 338).p_value == pytest.approx(0.385, abs=0.001)


@pytest.mark.parametrize(
    ("first", "second", "state"),
    [
        (300, 150, "ahead"),
        (180, 90, "open"),  # beyond chance, but less than a point
        (6_0, 5_0, "no lead"),
        (1_900, 1_800, "open"),  # a point, but not beyond chance
        (90, 300, "no lead"),
        (0, 0, "no lead"),
    ],
)
def test_a_lead_is_beyond_chance_and_of_a_point(first: int, second: int, state: str) -> None:
    (lead,) = judge_columns({"x": {"SCE": gap(first, second)}})
    assert lead.state == state


def test_the_same_difference_among_many_columns_is_no_lead() -> None:
    close = gap(1_900, 1_775)  # p = 0.041
    assert judge_columns({"x": {"SCE": close}})[0].state == "ahead"
    many = judge_columns({name: {"SCE": close} for name in "abcdefgh"})
    assert {lead.state for lead in many} == {"open"}
    assert many[0].p_value == pytest.approx(8 * close.p_value)


def test_what_is_ruled_out_is_so_for_all_columns_and_models_together() -> None:
    edge = gap(480, 460)  # its own interval ends at 0.8 points, that of one column in eight above
    assert edge.interval()[1] < 1 < gap(520, 480).interval(1 - 0.05 / 8)[1]
    assert judge_columns({"x": {"SCE": gap(520, 485)}})[0].state == "no lead"
    assert judge_columns({name: {"SCE": gap(520, 485)} for name in "abcdefgh"})[0].state == "open"
    assert judge_columns({"x": {name: gap(520, 485) for name in "abcdefgh"}})[0].state == "open"


def test_a_lead_is_over_each_of_the_others() -> None:
    things = [under(SCE, {"pgd10-un-8": 5}), under(CENTER, {"pgd10-un-8": 20}), under(MMC, {"pgd10-un-8": 20})]
    (lead,) = leads(published(*things), MMC, (SCE, CENTER), PGD_8)
    assert (lead.state, lead.closest) == ("no lead", "Center loss")
    (alone,) = leads(published(things[0], things[2]), MMC, (SCE, CENTER), PGD_8)
    assert (alone.state, alone.closest) == ("ahead", "SCE")


def test_answers_that_an_attack_turned_right_give_no_lead() -> None:
    """60 % right under the attack against 55 %, but ten of them were wrong before it."""
    turned = np.arange(2000) >= 800
    ours = summary(MMC, "paper-table1", clean=70, more=(stage("pgd10-un-8", 60.0, right=turned),))
    theirs = under(SCE, {"pgd10-un-8": 55}, clean=80.0)
    (lead,) = leads(published(ours, theirs), MMC, (SCE,), PGD_8)
    assert lead.state == "no lead"
    assert lead.gap is not None
    assert lead.gap.words == "−25.0 points (300 to 800 of 2,000 images)"


def test_summaries_that_do_not_tell_images_apart_are_not_tested() -> None:
    ours, theirs = under(MMC, {"pgd10-un-8": 50}), under(SCE, {"pgd10-un-8": 5})
    older = replace(theirs, stages=tuple(replace(each, right=None) for each in theirs.stages))
    elsewhere = replace(theirs, data_fingerprint="other images")
    for other in (older, elsewhere):
        (lead,) = leads(published(ours, other), MMC, (SCE,), PGD_8)
        assert lead.state == "not tested"
        assert "| PGD-10 un 8 | SCE | not tested | – | not tested |" in leads_table([lead])
    (half,) = leads(published(ours, older, under(CENTER, {"pgd10-un-8": 5})), MMC, (SCE, CENTER), PGD_8)
    assert half.state == "not tested"
    (lost,) = leads(published(ours, older, under(CENTER, {"pgd10-un-8": 60})), MMC, (SCE, CENTER), PGD_8)
    assert lost.state == "no lead", "one that it is behind of is enough"


def distance(value: float, error: float | None = 0.001) -> Measured:
    return Measured(None, value, 2000, False, error)


@pytest.mark.parametrize(
    ("ours", "theirs", "state"),
    [
        (distance(0.2), distance(0.1), "ahead"),
        (distance(0.104), distance(0.1), "open"),  # beyond chance, but hardly farther
        (distance(0.12, 0.01), distance(0.1, 0.01), "open"),
        (distance(0.1), distance(0.1), "no lead"),
        (distance(math.nan), distance(0.1), "not tested"),
        (distance(0.1), distance(math.nan), "not tested"),
        (replace(distance(0.9), left=Rate(6.0, 100)), distance(0.1), "not tested"),
        (distance(0.1), replace(distance(0.9), left=Rate(6.0, 100)), "not tested"),
        (replace(distance(0.9), left=Rate(5.0, 100)), distance(0.1), "ahead"),
        (distance(0.2, None), distance(0.1), "not tested"),
    ],
)
def test_distances_lead_by_their_errors(ours: Measured, theirs: Measured, state: str) -> None:
    assert judge_columns({"C&W": {"SCE": of_distances(ours, theirs)}})[0].state == state


def test_counts_that_cannot_be_paired_are_compared_by_the_textbook() -> None:
    """Two shares of 1,000: the pooled z-test by hand, and Newcombe's interval from the two's own."""
    found = of_counts(Rate(245.0, 1000), Rate(220.0, 1000))
    error = math.sqrt(0.2325 * 0.7675 * 2 / 1000)
    assert found.p_value == pytest.approx(math.erfc(0.025 / error / math.sqrt(2)))
    assert found.interval() == pytest.approx(points_apart(Rate(245.0, 1000), Rate(220.0, 1000))[1:])
    assert found.words == "+2.5 points (unpaired counts of 1,000 images)"
    assert of_counts(Rate(0.0, 1000), Rate(0.0, 1000)).p_value == 1.0


def test_only_attacks_on_the_true_label_are_compared_by_counts() -> None:
    values = {"spsa-un-8": 20.0, "pgd10-un-8": 20.0}
    things = [under(MMC, values), under(SCE, dict.fromkeys(values, 5.0))]
    few = [replace(each, stages=tuple(replace(x, right=None) for x in each.stages)) for each in things]
    states = {lead.title: lead.state for lead in leads(published(*few), MMC, (SCE,), ("spsa-un-8", "pgd10-un-8"))}
    assert states == {"SPSA un 8": "ahead", "PGD-10 un 8": "not tested"}
    elsewhere = replace(few[1], data_fingerprint="other images")
    fewer = replace(few[1], stages=(stage("spsa-un-8", 5.0, 1000, right=None),))
    for other in (elsewhere, fewer):
        (lead,) = leads(published(few[0], other), MMC, (SCE,), ("spsa-un-8",))
        assert lead.state == "not tested"


@pytest.mark.parametrize(
    ("kinds", "verdict"),
    [
        (("aa", "aa"), "yes"),
        (("aa", ""), "yes"),
        (("aa", "an"), "in part"),
        (("an", "nn"), "no"),
        (("an", "ao"), "undecided"),
        (("ao", ""), "undecided"),
    ],
)
def test_one_column_of_many_is_not_a_part(kinds: tuple[str, str], verdict: Verdict) -> None:
    sizes = {"a": gap(400, 100), "n": gap(10, 10), "o": gap(180, 90)}
    found = [
        judge_columns({f"{kind}{place}": {"SCE": sizes[letter]} for place, letter in enumerate(kind)}) for kind in kinds
    ]
    assert over_kinds(found) == verdict


def test_columns_are_counted_by_what_was_seen() -> None:
    found = judge_columns({"a": {"SCE": gap(400, 100)}, "b": {"SCE": gap(10, 10)}, "c": {"SCE": None}})
    assert counted(found) == "1 of 3 columns (ruled out in 1, not tested in 1)"
    assert state_of(found) == "no lead"
    assert "| a | SCE | +3.0 points (400 to 100 of 10,000 images) | < 0.001 | yes |" in leads_table(found)


def test_the_interval_over_one_seed_is_that_of_paired_images() -> None:
    one = crossed([np.repeat([1.0, -1.0, 0.0], [60, 40, 900])])
    assert one is not None
    assert one.size == pytest.approx(2.0)
    assert one.interval() == pytest.approx(gap(60, 40, 1000).interval(), abs=0.02)
    assert crossed([]) is None


@pytest.mark.parametrize(("of_seeds", "of_images"), [(0.03, 0.0), (0.0, 0.3), (0.02, 0.2), (0.0, 0.0)])
def test_the_interval_over_seeds_and_images_covers_the_truth(of_seeds: float, of_images: float) -> None:
    """Seeds and images are drawn again and again around a difference of five points."""
    rng, covered, times, variances = np.random.default_rng(0), 0, 400, []
    for _ in range(times):
        mean = 0.05 + of_seeds * rng.normal(size=(4, 1)) + of_images * rng.normal(size=(1, 300))
        found = crossed(list(mean + 0.3 * rng.normal(size=(4, 300))))
        assert found is not None
        low, high = found.interval()
        covered += low <= 5.0 <= high
        variances.append(found.error**2)
    assert covered / times >= 0.925
    truth = 100**2 * (of_seeds**2 / 4 + of_images**2 / 300 + 0.3**2 / 1200)
    assert 0.85 <= np.mean(variances) / truth <= 1.7, "neither part is left out, and none is counted twice"


@pytest.mark.parametrize(("of_seeds", "noise"), [(0.03, 0.3), (0.0, 0.3), (0.02, 0.0)])
def test_one_seed_has_an_interval_from_the_seeds_of_other_differences(of_seeds: float, noise: float) -> None:
    """Three others with three seeds each, on fewer images than the one."""
    rng, covered, times, variances = np.random.default_rng(0), 0, 400, []
    for _ in range(times):
        image = 0.2 * rng.normal(size=600)
        tables = [
            gap + of_seeds * rng.normal(size=(seeds, 1)) + image[:images] + noise * rng.normal(size=(seeds, images))
            for gap, seeds, images in ((0.05, 1, 600), (0.3, 3, 200), (0.2, 3, 200), (0.1, 3, 200))
        ]
        found = crossed(list(tables[0]), [list(each) for each in tables[1:]])
        assert found is not None
        low, high = found.interval()
        covered += low <= 5.0 <= high
        variances.append(found.error**2)
    assert covered / times >= 0.925
    truth = 100**2 * (of_seeds**2 + (0.2**2 + noise**2) / 600)
    assert 0.85 <= np.mean(variances) / truth <= 1.7
    alone = crossed(list(tables[0]))
    assert alone is not None
    assert alone == crossed(list(tables[0]), [[], list(tables[0])]), "nothing is known of seeds from single ones"


def test_every_seed_counts_on_the_first_images_which_all_of_them_saw() -> None:
    found = crossed([np.zeros(100), np.repeat([1.0, -1.0], 100), np.repeat([0.5, -1.0], 100)])
    assert found is not None
    assert (found.seeds, found.images, found.size) == (3, 100, pytest.approx(50.0))


def test_budgets_are_over_the_seeds_that_both_losses_have() -> None:
    sce, mmc = SHORT
    things = [
        summary(f"{name}{end}", "autoattack", robust=value)
        for name, end, value in (
            (sce, "", 40),
            (mmc, "", 41),
            (sce, "-seed1", 40),
            (mmc, "-seed1", 43),
            (sce, "-seed2", 40),
        )
    ]
    tuned = [summary(f"{base}-seed0", "strict", robust=44) for base in TUNED]
    found = budgets(published(*things, *tuned))
    assert list(found) == ["untargeted, tuned", "untargeted, short"]
    short = found["untargeted, short"]
    assert (short.suite, short.robust.seeds, short.robust.size) == ("autoattack", 2, pytest.approx(2.0))
    assert found["untargeted, tuned"].suite == "strict"


@pytest.mark.parametrize(
    ("attacked_by_autoattack", "suite", "seeds"),
    [(("-seed0",), "strict", 2), (("-seed0", "-seed1"), "autoattack", 2), ((), "strict", 2)],
)
def test_a_budget_is_under_the_suite_that_saw_the_most_seeds(
    attacked_by_autoattack: tuple[str, ...], suite: str, seeds: int
) -> None:
    things = [summary(f"{each}-seed{seed}", "strict", samples=1000) for each in ("a", "b") for seed in (0, 1)]
    things += [summary(f"{each}{end}", "autoattack") for each in ("a", "b") for end in attacked_by_autoattack]
    found = at_budget(published(*things), "a", "b")
    assert found is not None
    assert (found.suite, found.robust.seeds, found.models) == (suite, seeds, ("a-seed0", "b-seed0"))
    assert at_budget(published(*things), "a", "c") is None


@pytest.mark.parametrize(("size", "sign"), [(5.0, 1), (1.0, 0), (-5.0, -1)])
def test_the_sign_of_a_difference_is_that_of_its_interval(size: float, sign: int) -> None:
    assert Crossed(size, 1.0, 100.0, 3, 1000).sign == sign


AT_SCE, AT_MMC, AT_HM = ADVERSARIAL_CIFAR100


def attacked(model: str, robust: float, rate: float = 0.2, epochs: int = 40) -> Summary:
    settings = {"train": {"epochs": epochs, "lr": rate}}
    found = summary(model, "autoattack", robust=robust, samples=1000, data="cifar100")
    return replace(found, model={"settings": settings})


def test_losses_are_corrected_for_all_pairs() -> None:
    models = [attacked(AT_SCE, 20), attacked(AT_MMC, 19.4)]
    (two,) = loss_pairs(published(*models))
    assert (two.first, two.second, two.p_value) == (AT_MMC, AT_SCE, pytest.approx(2 * 0.5**6))
    assert two.interval == of_images(two.pair).interval()
    assert two.text == "−0.6 points [−1.1, −0.1], p = 0.031, 0 to 6 of 1,000 images"
    three = loss_pairs(published(*models, attacked(AT_HM, 20)))
    assert three[0].p_value == pytest.approx(3 * 2 * 0.5**6)
    assert three[0].interval == of_images(three[0].pair).interval(1 - 0.05 / 3)


def test_another_learning_rate_is_compared_with_the_same_training_alone() -> None:
    base = attacked(AT_HM, 17.6)
    (found,) = other_rates(published(base, attacked(f"{AT_HM}-lr0.1", 20, 0.1)))
    assert (found.first, found.second, found.pair.first_only) == (f"{AT_HM}-lr0.1", AT_HM, 24)
    for other in (attacked(f"{AT_HM}-lr0.1", 20), attacked(f"{AT_HM}-lr0.1", 20, 0.1, epochs=80)):
        assert other_rates(published(base, other)) == []


def test_hm_and_mmc_are_compared_on_the_same_images() -> None:
    hm, mmc = (summary(f"cifar100-{name}", "strict", clean=value) for name, value in (("hm", 70.0), ("mmc", 69.0)))
    found = hm_beside_mmc(published(hm, mmc))
    assert found is not None
    assert (found.size, found.words, found.significant) == (1.0, "+1.0 points (20 to 0 of 2,000 images)", True)
    assert hm_beside_mmc(published(hm, replace(mmc, data_fingerprint="others"))) is None
    assert hm_beside_mmc(published(hm)) is None
