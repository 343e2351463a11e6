"""The page about trees in short: every answer driven by the data, and what single trainings of the scan tell."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_summaries import run, shelf, stage, summary

from maxmahal.evaluate.severity import Severity
from maxmahal.records.statistics import Rate
from maxmahal.reproduce import load_grid
from paper import own
from paper.pages.hierarchical import hm_note
from paper.pages.hm_pair import BASE, HM
from paper.pages.trees import trees_pages
from paper.pages.trees_beside import Beside, favours
from paper.pages.trees_figures import draw_figures
from paper.pages.trees_long import Long, read_long
from paper.pages.trees_scan import edges_told, same_ratio, same_ratio_table, small_predicted
from paper.pages.trees_short import Short
from paper.pages.trees_study import (
    AT_MMC,
    AT_ORTHOGONAL,
    EMC,
    LEARNED,
    MMC,
    NEAR,
    ORTHOGONAL,
    RANDOM,
    ROTATED,
    STRICT,
    TREES,
    ratio_of,
    with_contrasts,
)
from paper.pages.trees_tables import choices, convergence, effects
from paper.pages.trees_verdict import verdicts
from paper.pages.trees_words import bounds, centers, rule
from paper.pages.variants.results import Results, Run
from paper.pages.variants.rules import lasting
from paper.pages.variants.spec import Study
from paper.summaries import RunSummary

pytestmark = pytest.mark.usefixtures("unchecked")
ROOT = Path(__file__).resolve().parent.parent.parent
WORDS = 60
JITTER = (0, 3, -3, 1, -1)
"""Images by which seeds of an arm differ, so that intervals have a width."""


def trained(arm: str, clean: int, superclass: int, robust: int, seed: int = 0, **more: Any) -> Run:
    """Counts of 10,000 images."""
    facts: dict[str, Any] = {"settings": {}, "stages": {}, "test_accuracy": (0.1, 0.5)}
    right = clean + JITTER[seed]
    mistakes = Severity((right, superclass - clean, 10_000 - superclass - JITTER[seed]))
    worst = Severity((robust, 100, 9_900 - robust))
    rates = {"clean": Rate(float(right), 10_000), "robust": Rate(float(robust), 10_000)}
    return Run(arm, seed, mistakes={"clean": mistakes, "worst": worst}, **{**facts, **rates, **more})


def three(arm: str, clean: int, superclass: int, robust: int, seeds: int = 3) -> list[Run]:
    return [trained(arm, clean, superclass, robust + 2 * JITTER[seed] * (arm != MMC), seed) for seed in range(seeds)]


def results(study: Study, *runs: Run) -> Results:
    about = {"suite": study.suite, "suite_version": 1, "norm": "Linf", "epsilon": study.epsilon, "samples": 10_000}
    return with_contrasts(Results(study, about, runs, {"train.epochs": 30}))


def short(plain: Results, beside: Beside | None = None, long: Long | None = None) -> str:
    near, strict = results(NEAR), results(STRICT)
    return Short(plain, near, strict, beside or Beside(), long or Long(), lasting([plain, near, strict])).lines()


def verdict_of(every: list[Results], long: Long | None = None) -> str:
    return "\n".join(verdicts(every, long or Long(), lasting(every)))


def line(text: str, start: str) -> str:
    (found,) = [each for each in text.splitlines() if each.startswith(f"- **{start}")]
    return found


def pair(ours: float, theirs: float, left: float = 0.0) -> Long:
    """Both trained long, with so many percent right, and so many of the first one's images left at worst."""
    attacked = [("strict", {}), ("paper-table4", {"pgd10-tar-8": 10.0, "pgd10-un-8": 10.0})]
    found = {
        name: tuple(summary(name, suite, rest, share, stages, samples=10_000) for suite, stages in attacked)
        for name, share, rest in ((HM, ours, left), (BASE, theirs, 0.0))
    }
    return Long(found[HM], found[BASE])


MILD = (*three(MMC, 6000, 7000, 800), *three("trees-orthogonal-1", 6005, 7300, 700))


# Milder mistakes, clean accuracy, robustness


@pytest.mark.parametrize(("superclass", "said"), [(7300, "yes"), (7003, "none seen"), (6500, "none seen")])
def test_milder_mistakes_are_said_only_where_they_are_seen(superclass: int, said: str) -> None:
    plain = results(TREES, *three(MMC, 6000, 7000, 800), *three("trees-orthogonal-1", 6000, superclass, 700))
    told = short(plain)
    assert f"- **Milder mistakes: {said}.** After 30 epochs, three seeds, in points against MMC-10" in told
    assert f"{(superclass - 7000) / 100:+.1f}".replace("-", "−") in line(told, "Milder")
    assert ("**Of use**" in told) == (said == "yes")


@pytest.mark.parametrize(
    ("clean", "said"), [((6300, 5500), "depends on the form"), ((6300, 6310), "higher"), ((5500, 5510), "lower")]
)
def test_clean_accuracy_is_told_form_by_form(clean: tuple[int, int], said: str) -> None:
    arms = [*three("trees-orthogonal-1", clean[0], 7300, 700), *three("trees-shared-0.5", clean[1], 7300, 700)]
    told = line(short(results(TREES, *three(MMC, 6000, 7000, 800), *arms)), "Clean")
    assert told.startswith(f"- **Clean accuracy: {said}.**")
    assert f"{(clean[1] - 6000) / 100:+.1f} (shared coordinates, ratio 0.5)".replace("-", "−") in told


@pytest.mark.parametrize(
    ("ours", "said", "no_use"), [(60.2, "not to be told apart", True), (63.0, "more than chance over images", False)]
)
def test_the_long_pair_is_compared_on_the_same_images(ours: float, said: str, no_use: bool) -> None:
    # The first images are right: 20 more of 10,000 are beyond chance in a paired test, but not by a point.
    long = pair(ours, 60.2)
    told = short(results(TREES, *MILD), long=long)
    assert long.clean is not None
    assert said in line(told, "Clean")
    assert "After 200, one seed each, same images: " in line(told, "Clean")
    assert ("accuracy after a long training" in told) == no_use


def trained_long(name: str, accuracy: float) -> RunSummary:
    return run(
        name,
        [30.0],
        settings={"data": {"source": "cifar100"}, "train": {"epochs": 1}},
        result={"last": {"epoch": 1, "test_accuracy": accuracy}},
    )


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("ours", [60.2, 63.0])
def test_both_pages_tell_the_same_of_the_long_pair(ours: float, paired: bool) -> None:
    """One of them from all that was collected, the other from these two models alone; where one of these was not
    evaluated, by what the trainings counted.
    """
    long = replace(pair(ours, 60.1), runs=(trained_long(HM, ours / 100), trained_long(BASE, 0.601)))
    long = long if paired else replace(long, theirs=())
    note = hm_note(shelf(*long.ours, *long.theirs, *long.runs))
    told = line(short(results(TREES, *MILD), long=long), "Clean")
    assert long.clean is not None
    size = f"{ours - 60.1:+.1f} points ["
    assert f"HM less MMC-10 is {size}" in note
    assert size in told
    assert note.endswith(f"): {long.clean.verdict}.")
    assert told.endswith(f", {long.clean.verdict}.")
    assert ("same images" in note, "same images: " in told) == (paired, paired)
    assert ("by counts of 10,000 images, not paired" in note) != paired
    assert ("by counts of 10,000 images, not paired: " in told) != paired


def test_nothing_left_of_either_is_said_and_not_called_undecided() -> None:
    every = [results(TREES, *MILD), results(NEAR), results(STRICT)]
    nothing = "`strict` at 8/255 leaves 0 of 10,000 images of `cifar100-hm` and of `cifar100-mmc`"
    told = verdict_of(every, pair(60.0, 60.0))
    assert f"nothing is left of either after 200 epochs: {nothing}, one seed each." in told
    assert nothing in line(short(every[0], long=pair(60.0, 60.0)), "Robustness after 200 epochs")
    told = verdict_of(every, pair(60.0, 60.0, left=1.0))
    assert "nothing is left" not in told
    assert "without adversarial training:** not decided, for it takes three seeds of both." in told


@pytest.mark.parametrize(("robust", "said"), [(760, "no gain seen"), (500, "no gain seen, lower"), (950, "higher")])
def test_a_gain_in_robustness_is_said_only_where_it_is_seen(robust: int, said: str) -> None:
    told = short(results(TREES, *three(MMC, 6000, 7000, 800), *three("trees-orthogonal-1", 6005, 7300, robust)))
    assert line(told, "Robustness").startswith(f"- **Robustness: {said}.** Worst case at 1/255 against MMC-10: ")
    assert ("for robustness" in told) == (said != "higher")
    both = [*three("trees-orthogonal-1", 6005, 7300, robust), *three("trees-shared-0.5", 6005, 7300, 800)]
    mixed = line(short(results(TREES, *three(MMC, 6000, 7000, 800), *both)), "Robustness")
    assert mixed.startswith(f"- **Robustness: {said}{' in some forms' if robust != 760 else ''}.**")


def attacked(arm: str, left: int, later: int, seed: int = 0) -> Any:
    first = stage("apgd", 0, 10_000, accuracy=Rate(float(left), 10_000), broke=0)
    more = stage("more", 0, 10_000, broke=later)
    return summary(f"{arm}-seed{seed}", "trees", 8.0, 60, None, (first, more), samples=10_000, model_fingerprint=arm)


@pytest.mark.parametrize(
    ("later", "side"), [((90, 120), "hierarchical centers"), ((10, 12), "MMC-10"), ((90, 12), "neither side clearly")]
)
def test_whom_loose_bounds_favour(later: tuple[int, int], side: str) -> None:
    arms = ("trees-orthogonal-1", "trees-shared-0.5")
    runs = [replace(each, fingerprint=each.arm) for arm in (MMC, *arms) for each in three(arm, 6000, 7300, 700)]
    beside = Beside(
        tuple(
            attacked(arm, 1000, broke, seed)
            for arm, broke in ((MMC, 50), *zip(arms, later, strict=True))
            for seed in range(3)
        )
    )
    plain = results(TREES, *runs)
    low, high = (round(each / 10) for each in sorted(later))
    assert favours(plain, arms, beside) == (side, f"{low} to {high} % with the given tree, 5 % with MMC-10")
    assert favours(plain, arms, Beside()) == ("", "")
    assert f"- Over three seeds they break {low} to {high} % with the given tree, " in bounds(plain, beside)
    fewer = replace(beside, evaluations=beside.evaluations[1:])
    assert "- Over two to three seeds they break " in bounds(plain, fewer)
    assert f"compared so, the bounds favour {side}." in bounds(plain, beside)
    assert f"by upper bounds that favour {side}." in line(short(plain, beside), "Robustness")


# The paper's own ratios


@pytest.mark.parametrize(
    ("clean", "said", "cost"),
    [
        ((5000, 4000), "Did not come true", "cost accuracy"),
        ((6500, 6600), "Came true", "do not all cost accuracy"),
        ((6500, 4000), "Came true in part", "do not all cost accuracy"),
        ((6010, 6001), "Undecided", "do not all cost accuracy"),
    ],
)
def test_the_papers_small_ratios_have_a_prediction_of_their_own(clean: tuple[int, int], said: str, cost: str) -> None:
    small = [trained("trees-orthogonal-0.2", clean[0], 7300, 700), trained("trees-shared-0.1", clean[1], 7300, 700)]
    large = trained("trees-orthogonal-0.5", 9000, 9300, 700)
    plain = results(TREES, *MILD, *small, large)
    (told,) = small_predicted(plain, Beside())
    assert "Judged at ratios up to 0.2, one training of each of 2 arms, intervals over images, not all of " in told
    assert f"**{said}**" in told
    low, high = (f"{(each - 6000) / 100:+.1f}".replace("-", "−") for each in sorted(clean))
    assert line(short(plain), "The paper's own ratios").startswith(f"- **The paper's own ratios, C2 ≪ C1, {cost}.**")
    if abs(clean[0] - 6000) > 100:
        assert f"clean accuracy {low} to {high}, " in short(plain)
    assert small_predicted(results(TREES, *MILD), Beside()) == []
    assert "(C2 ≪ C1): not measured**" in short(results(TREES, *MILD))
    assert "C2 ≪ C1 and gives no number; here that is ratios up to 0.2" in centers()


# Trees


def test_that_it_is_the_tree_takes_a_random_one_like_mmc_and_a_given_one_ahead() -> None:
    random = three("trees-random-1.4", 6000, 7002, 800)
    one_ratio = [trained("trees-random-1", 6000, 6950, 800), trained("trees-orthogonal-1.4", 6000, 7200, 750)]
    told = line(short(results(TREES, *MILD, *random, *one_ratio)), "Is it the tree?")
    assert told.startswith("- **Is it the tree? Yes.** A random tree shows no difference to MMC-10 in 5 measures (±")
    assert "3.0 points above it (ratio 1 against 1.4); at equal ratios, seed 0, +2.0 to +3.5 points." in told
    behind = results(TREES, *MILD, *three("trees-random-1.4", 6000, 7600, 800))
    assert "Is it the tree? Not shown.** A random tree shows a difference to MMC-10 too" in short(behind)
    assert "Is it the tree? Not decided**" in short(results(TREES, *MILD))


def test_trees_are_compared_at_one_ratio_beside_the_ratios_that_were_chosen() -> None:
    one_ratio = [trained("trees-random-1", 6000, 6950, 800), trained("trees-orthogonal-1.4", 6000, 7200, 750)]
    plain = results(TREES, *MILD, *three("trees-random-1.4", 6000, 7000, 800), *one_ratio)
    found = same_ratio(plain, ORTHOGONAL, RANDOM, "superclass", Beside())
    assert {ratio: round(gap.size, 3) for ratio, gap in found.items()} == {"1": 3.5, "1.4": 2.0}
    table = same_ratio_table(plain, Beside())
    assert "| given tree less random tree, both at ratio 1.4 | +0.0 [−1.4, +1.4]‡ | +2.0 [" in table
    every = [plain, results(NEAR), results(STRICT)]
    said = "given tree less random tree +3.5 at 1 and +2.0 at 1.4"
    assert said in verdict_of(every)
    alike = results(TREES, *MILD, *three("trees-random-1", 6000, 7000, 800))
    assert "differ in their ratios" not in verdict_of([alike, *every[1:]])
    assert same_ratio_table(results(TREES, *MILD), Beside()) == ""


def test_a_learned_tree_is_not_called_worse_for_another_trees_superclasses() -> None:
    every = [results(TREES, *MILD, *three("trees-learned-1.4", 6005, 7000, 700)), results(NEAR), results(STRICT)]
    told = verdict_of(every)
    assert "| learned tree, ratio 1.4 against orthogonal subspaces, ratio 1 | – | superclass −3.0, " in told
    assert "which the learned tree does not follow" in told
    assert "which the learned tree does not follow" not in verdict_of([results(TREES, *MILD), *every[1:]])


# Many comparisons, edges, and what is missing


def test_a_difference_that_stands_alone_has_a_dagger_wherever_it_is_told() -> None:
    alone = [trained("trees-shared-0.5", 6000, each, 800, seed) for seed, each in enumerate((7120, 7197, 7253))]
    nothing = [each for family in (EMC, RANDOM) for each in three(family.names[0], 6000, 7000, 800)]
    plain = results(TREES, *three(MMC, 6000, 7000, 800), *alone, *nothing)
    told = verdict_of([plain, results(NEAR), results(STRICT)])
    assert "| shared coordinates, ratio 0.5 against MMC-10 | superclass +1.9†, " in told
    assert "are marked †: each stands alone, and may be chance." in told
    assert "+1.9† (shared coordinates, ratio 0.5)" in short(plain)
    assert "† One of many comparisons" in short(plain)
    assert "†" not in short(results(TREES, *MILD))
    assert "so they are no third finding" in told


def test_choices_at_an_edge_are_named() -> None:
    def scanned(arm: str, score: float) -> Run:
        return trained(arm, 6000, 7000, 800, validation=score)

    rotated = [scanned(f"trees-rotated-{ratio}", score) for ratio, score in (("0.5", 0.5), ("1", 0.6), ("1.4", 0.7))]
    emc = [scanned("trees-emc-0.1", 0.6), scanned("trees-emc-1.0", 0.5)]
    inside = [scanned(f"trees-orthogonal-{ratio}", score) for ratio, score in (("0.5", 0.5), ("1", 0.7), ("1.4", 0.6))]
    plain = results(TREES, *rotated, *emc, *inside, scanned("trees-random-1.4", 0.6))
    (told,) = edges_told(plain, (ROTATED, EMC, ORTHOGONAL, RANDOM), Beside())
    assert told.endswith("lie beyond: shared and rotated (ratio 1.4, the highest) and EMC (α 0.1, the lowest).")
    assert edges_told(plain, (ORTHOGONAL,), Beside()) == []
    assert "ratios beyond the highest tried where that was chosen (1.4 of shared and rotated);" in short(plain)
    other = results(TREES, scanned("trees-emc-0.1", 0.5), scanned("trees-emc-1.0", 0.6))
    assert "ratios beyond" not in short(other), "of EMC it is no ratio"


def test_what_would_change_the_answer_is_what_is_missing() -> None:
    plain = results(TREES, *MILD, *three("trees-random-1.4", 6000, 7000, 800))
    told = line(short(plain, long=pair(60.0, 60.0)), "What would change this")
    assert "three seeds at 200 epochs, and their mistakes by superclass" in told
    assert "three seeds of the given tree at the random one's ratio (1.4)" in told
    assert "`strict` at 1/255" in told
    assert "`strict` on adversarial training (0 seeds trained, 0 attacked)" in told
    near = results(NEAR, *MILD)
    adversarial = [*three(AT_MMC, 3000, 4000, 800), *three(AT_ORTHOGONAL.names[1], 3000, 4000, 800)]
    more = results(TREES, *plain.runs, *three("trees-orthogonal-1.4", 6000, 7300, 700))
    long = Long(*(tuple(summary(f"{name}{end}", "strict") for end in ("", "-seed1", "-seed2")) for name in (HM, BASE)))
    assert (
        "What would change" not in Short(more, near, results(STRICT, *adversarial), Beside(), long, frozenset()).lines()
    )


def test_trainings_alone_speak_until_three_seeds_are_attacked() -> None:
    scores = {"result": {"last": {"test_pgd10": 0.2, "test_accuracy": 0.3}}}
    arms = (AT_MMC, AT_ORTHOGONAL.names[1])
    beside = Beside(runs=tuple(run(f"{arm}-seed{seed}", [70.0], **scores) for arm in arms for seed in range(3)))
    plain, near, attacked = results(TREES, *MILD), results(NEAR), [*three(arms[0], 3000, 4000, 800)]
    told = Short(plain, near, results(STRICT, *attacked), beside, Long(), frozenset()).lines()
    assert "- **Robustness with adversarial training: no gain seen.**" in told
    attacked += three(arms[1], 3000, 4000, 800)
    told = Short(plain, near, results(STRICT, *attacked), beside, Long(), frozenset()).lines()
    assert "with adversarial training" not in told


@pytest.mark.parametrize(
    ("seeds", "said"), [((3, 3), "three seeds"), ((5, 5), "five seeds"), ((3, 5), "three to five seeds")]
)
def test_seeds_are_counted_and_not_typed(seeds: tuple[int, int], said: str) -> None:
    ours = three("trees-orthogonal-1", 6005, 7300, 700, seeds[0])
    others = three("trees-shared-1", 6005, 7300, 700, seeds[1])
    told = short(results(TREES, *three(MMC, 6000, 7000, 800, 5), *ours, *others))
    assert f" After 30 epochs, {said}, in points against MMC-10" in line(told, "Milder")
    assert f" After 30 epochs, {said}: " in line(told, "Clean")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((0, 0), "one seed each"),
        ((2, 2), "the first of three seeds each"),
        ((1, 0), "the first of two seeds and of one seed"),
    ],
)
def test_seeds_of_the_long_pair_are_counted(more: tuple[int, int], said: str) -> None:
    long = pair(60.0, 60.0)
    ours, theirs = (
        (*each, *(replace(each[0], name=f"{name}-seed{seed + 1}") for seed in range(count)))
        for name, each, count in ((HM, long.ours, more[0]), (BASE, long.theirs, more[1]))
    )
    long = Long(*(tuple(replace(x, near=x.right) for x in each) for each in (ours, theirs)))
    told = short(results(TREES, *MILD), long=long)
    assert f"After 200, {said}, same images: " in line(told, "Clean")
    assert f".** {said.capitalize()}, same images: superclass" in line(told, "Milder after")
    assert f"**, {said}, against MMC-10: " in line(told, "Robustness after")
    assert f", {said}. Three seeds here are not run" in verdict_of(
        [results(TREES, *MILD), results(NEAR), results(STRICT)], long
    )


# Rules and tables


def test_the_rule_says_what_is_in_no_interval_and_what_a_seed_draws() -> None:
    told = rule(results(TREES, *MILD))
    assert "on the same 10,000 test images" in told
    assert "What other images would change is in none of them" in told
    assert "A seed** draws the centers anew in *shared and rotated* and of the *random tree*" in told
    assert "the *learned tree* is one tree" in told


def test_scores_of_adversarial_training_are_called_what_they_are() -> None:
    runs = (
        run(f"{AT_MMC}-seed0", [50.0], epochs=({"epoch": 1, "validation_accuracy": 0.3, "validation_pgd10": 0.176},)),
    )
    told = choices(results(STRICT), (AT_ORTHOGONAL,), Beside(runs=runs), AT_MMC)
    assert told.startswith("| form | validation accuracy under PGD-10 at seed 0, in % |")
    assert "| AT, MMC-10 | 17.6 |" in told
    assert choices(results(TREES), (EMC,), Beside()).startswith("| form | validation accuracy at seed 0, in % |")


def test_an_error_that_some_seeds_reach_says_how_many() -> None:
    curves = ((0.1, 0.2, 0.55), (0.1, 0.2, 0.3), (0.1, 0.2, 0.3))
    base = [replace(each, test_accuracy=(0.2, 0.3, 0.55)) for each in three(MMC, 6000, 7000, 800)]
    slow = three("trees-orthogonal-1", 6000, 7300, 700)
    slow = [replace(each, test_accuracy=curve) for each, curve in zip(slow, curves, strict=True)]
    told = convergence(results(TREES, *base, *slow))
    assert "| orthogonal subspaces, ratio 1 | 2.0 (+1.0) | 3.0 (+1.0) | 3.0 (1 of 3 seeds) |" in told


def test_figure_and_table_have_one_name_for_a_measure_and_the_title_says_whose_seeds() -> None:
    plain = results(TREES, *MILD)
    drawn = draw_figures([plain], Beside())["trees-effects.svg"]
    table = effects(plain, MMC, frozenset()).splitlines()[0]
    for name in ("clean", "superclass", "mistakes within", "worst case", "first epochs"):
        assert f">{name}<" in drawn
        assert f"| {name} |" in table
    assert "near mistakes" not in drawn
    assert "interval over 3 seeds on the same images" in drawn


def test_the_end_of_the_scan_is_explained_only_where_the_explanation_holds() -> None:
    told = next(each for each in centers().splitlines() if "Where the ratios end" in each)
    assert (
        "orthogonal subspaces are all equally far apart, of the given tree and of a random one: MMC-10 again." in told
    )
    assert "for shared coordinates and for the learned tree has no such reason" in told


def test_other_trees_have_a_given_one_of_their_ratio_with_three_seeds() -> None:
    arms = {model.name.rpartition("-seed")[0] for model in load_grid(own("grid", "trees-seeds")).models}
    others = {ratio_of(arm) for arm in arms if arm in (*LEARNED.names, *RANDOM.names)}
    assert others <= {ratio_of(arm) for arm in arms if arm in ORTHOGONAL.names}


# The published page


def test_attacks_are_paired_on_images_right_before_and_after() -> None:
    def kept(name: str, right: float, after: float) -> Any:
        return summary(name, "paper-table4", 0.0, right, {"pgd10-un-8": after}, samples=1000)

    # Ours is right on the first 50 %, and an attack that makes wrong images right helps nobody.
    found = Long((kept(HM, 50.0, 60.0),), (kept(BASE, 55.0, 45.0),)).attacked
    assert {name: round(gap.size, 6) for name, gap in found.items()} == {"untargeted": 5.0}
    assert Long((kept(HM, 50.0, 60.0),), (replace(kept(BASE, 55.0, 45.0), data_fingerprint="other"),)).attacked == {}
    assert Long((kept(HM, 50.0, 60.0),), (replace(kept(BASE, 55.0, 45.0), suite_version=2),)).attacked == {}
    newer = replace(summary(HM, "strict", 0.0), suite_version=2)
    assert Long((newer,), (summary(BASE, "strict", 0.0),)).worst is None


def test_mistakes_of_the_long_pair_are_told_by_superclass() -> None:
    def known(name: str, near: float) -> Any:
        return replace(summary(name, "strict", 0.0, 70.0, samples=1000), near=np.arange(1000) < 10 * near)

    long = Long((known(HM, 81.0),), (known(BASE, 79.0),))
    told = short(results(TREES, *MILD), long=long)
    assert (
        "- **Milder after 200 epochs, too: yes.** One seed each, same images: superclass accuracy +2.0 points [" in told
    )
    assert "of the mistakes 36.7 % stay within the superclass, with MMC-10 30.0 %." in told
    assert "after 30 epochs, and after 200)" in line(told, "Of use")
    assert "mistakes by superclass" not in told
    same = short(results(TREES, *MILD), long=Long((known(HM, 79.0),), (known(BASE, 79.0),)))
    assert "Milder after 200 epochs, too: not seen.**" in same
    less = short(results(TREES, *MILD), long=Long((known(HM, 77.0),), (known(BASE, 79.0),)))
    assert "Milder after 200 epochs, too: no, less.**" in less
    assert "not so after 200)" in line(same, "Of use")
    unknown = short(results(TREES, *MILD), long=pair(70.0, 70.0))
    assert "Milder after" not in unknown
    assert "after 200 this was not measured" in line(unknown, "Of use")
    assert "three seeds at 200 epochs, and their mistakes by superclass" in unknown


def test_the_form_that_was_trained_long_comes_from_its_settings() -> None:
    settings = {"centers": {"subspaces": "orthogonal", "norms": [5.81238, 8.13733]}, "train": {"epochs": 7}}
    ours = replace(summary(HM, "strict"), model={"settings": settings})
    assert Long((ours,)).form == "orthogonal subspaces, ratio 1.4"
    for more, form in (({"subspaces": "shared"}, "shared coordinates"), ({"rotation_seed": 3}, "shared and rotated")):
        told = {**settings["centers"], "subspaces": "shared", "rotation_seed": -1, **more}
        other = replace(ours, model={"settings": {**settings, "centers": told}})
        assert Long((other,)).form == f"{form}, ratio 1.4"
        assert f" in {form} with C2/C1 = 1.4" in hm_note(shelf(other))
    assert Long((ours,)).epochs == 7
    assert Long((ours,), (summary(BASE, "strict"),)).epochs is None  # 7 and 200
    assert Long().form == ""


def test_summaries_of_the_long_pair_are_read(tmp_path: Path) -> None:
    assert read_long(tmp_path) == Long()
    assert Long().clean is None
    assert Long().attacked == {}
    assert Long().nothing_left == ""


def test_no_bullet_of_the_published_page_is_long() -> None:
    if not (ROOT / "paper" / "results").exists():
        pytest.skip("a copy of the tree without its results")
    page = trees_pages(ROOT / "paper" / "results")["trees.md"]
    long = [each for each in page.splitlines() if each.startswith("- ") and len(each.split()) > WORDS]
    assert long == []
    assert "## In short\n\n- **Milder mistakes: " in page
