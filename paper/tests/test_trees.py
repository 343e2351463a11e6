"""The page about hierarchical centers: pairs, choices, message, renderings and grids, with made-up numbers."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from made_up_summaries import run, stage, summary

from maxmahal.attacks.threats import parse_epsilon
from maxmahal.centers import hierarchical_centers, tree_from_superclasses
from maxmahal.data import CIFAR100_SUPERCLASSES
from maxmahal.evaluate.suite import load_suite
from maxmahal.records.statistics import Comparison, Rate, points_apart
from maxmahal.reproduce import load_grid
from maxmahal.train import load_settings
from paper import own
from paper.pages.study import Metric, Results, Run, Study, corrected
from paper.pages.trees import draw_figures, even_ratio, lead, small_outcome, trees_page, trees_pages
from paper.pages.trees_scan import (
    Apart,
    Long,
    TreeSummaries,
    adversarial_gaps,
    apart,
    at_the_edge,
    loss_and_robustness,
    pair_up_long,
    same_ratio,
    small_ratios,
)
from paper.pages.trees_study import (
    AT_MMC,
    AT_ORTHOGONAL,
    EMC,
    LEARNED,
    MMC,
    NEAR,
    ORTHOGONAL,
    RANDOM,
    STRICT,
    TREE_STUDIES,
    TREES,
    form_of,
    ratio_of,
    with_contrasts,
)
from paper.summaries import RunSummary, Summary
from paper.summaries.severity import Severity

pytestmark = pytest.mark.usefixtures("unchecked")
GIVEN, OTHER = "trees-orthogonal-1", "trees-random-1"
HM, BASE = "cifar100-hm", "cifar100-mmc"
IMAGES = 1000
RECIPE = {
    "model.backbone": "resnet32wide",
    "train.epochs": 7,
    "train.batch_size": 128,
    "train.lr": 0.1,
    "train.schedule": "linear",
    "train.warmup": 0.1,
    "train.weight_decay": 0.0005,
    "data.validation": 5000,
}
CENTERS = {"shortest": 9.0, "longest": 11.0, "nearest": 11.2, "across": 14.3}


def counted(arm: str, right: int, near: int, robust: int, seed: int = 0, **more: Any) -> Run:
    """Of 1,000 images: correct, correct but for the superclass, and correct under attack."""
    errors = {
        "clean": Severity((right, near - right, IMAGES - near)),
        "worst": Severity((robust, 100, IMAGES - 100 - robust)),
    }
    facts: dict[str, Any] = {"settings": {}, "stages": {}, "test_accuracy": (0.1, 0.5), "centers": CENTERS}
    facts |= {"mistakes": errors, "fingerprint": f"weights of {arm}-seed{seed}", "validation": 0.6}
    return Run(arm, seed, clean=Rate(float(right), IMAGES), robust=Rate(float(robust), IMAGES), **{**facts, **more})


def three(arm: str, right: int, near: int, robust: int) -> list[Run]:
    """Three seeds, which move all arms alike but for two images."""
    wiggle = (0, 1, -1) if arm != MMC else (0, 0, 0)
    return [counted(arm, right + 5 * s + w, near + 5 * s + w, robust + w, s) for s, w in enumerate(wiggle)]


def results(study: Study, *runs: Run) -> Results:
    about = {"suite": study.suite, "suite_version": 1, "norm": "Linf", "epsilon": study.epsilon, "samples": IMAGES}
    return with_contrasts(Results(study, about, runs, RECIPE))


def seen(arm: str, right: range, near: range | None = None, stands: range = range(0)) -> Summary:
    """A model by the images that it gets right, right but for the superclass, and right under attack."""
    flags = [None if each is None else np.isin(np.arange(IMAGES), each) for each in (right, near, stands)]
    facts: dict[str, Any] = dict(zip(("right", "near", "stands"), flags, strict=True))
    return summary(f"{arm}-seed0", "trees", samples=IMAGES, **facts)


SCAN = results(TREES, counted(MMC, 600, 700, 100), counted(GIVEN, 620, 760, 80), counted(OTHER, 590, 690, 90))
SUMMARIES = (
    seen(MMC, range(600), range(700), range(100)),
    seen(GIVEN, range(10, 630), range(5, 765), range(30, 110)),
    seen(OTHER, range(590), range(690), range(90)),
)
TREE_SUMMARIES = TreeSummaries(SUMMARIES)


# Two trainings of the scan on the same images


@pytest.mark.parametrize(("metric", "pair"), [("clean", (30, 10)), ("superclass", (65, 5)), ("worst", (10, 30))])
def test_two_models_are_paired_image_by_image(metric: Metric, pair: tuple[int, int]) -> None:
    mmc, given, _ = SCAN.runs
    assert TREE_SUMMARIES.paired(given, mmc, metric) == Comparison(*pair, IMAGES)
    found, loose = (apart(SCAN, GIVEN, MMC, metric, each) for each in (TREE_SUMMARIES, TreeSummaries()))
    assert found is not None
    assert loose is not None
    # By hand, with half an image in each of four cells: the variance of a difference of paired shares.
    ours, theirs, total = pair[0] + 0.5, pair[1] + 0.5, IMAGES + 2
    middle, variance = (ours - theirs) / total, (ours + theirs - (ours - theirs) ** 2 / total) / total**2
    reach = 1.959964 * math.sqrt(variance)
    assert (found.size, found.paired) == (pytest.approx((pair[0] - pair[1]) / 10), True)
    assert (found.low, found.high) == pytest.approx((100 * (middle - reach), 100 * (middle + reach)), abs=1e-5)
    assert (loose.size, loose.paired) == (pytest.approx(found.size), False)
    assert found.high - found.low < loose.high - loose.low


def test_errors_of_two_models_are_different_images() -> None:
    mmc, given, _ = SCAN.runs
    assert TREE_SUMMARIES.paired(given, mmc, "near") is None
    assert apart(SCAN, GIVEN, MMC, "near", TREE_SUMMARIES) == (*points_apart(Rate(140.0, 380), Rate(100.0, 400)), False)


@pytest.mark.parametrize(
    "changes",
    [
        {"model_fingerprint": "others"},
        {"data_fingerprint": "others"},
        {"suite_version": 2},
        {"seed": 1},
        {"right": np.ones(10, dtype=bool), "samples": 10},
    ],
    ids=lambda each: next(iter(each)),
)
def test_models_that_cannot_be_paired_have_the_interval_of_two_rates(changes: dict[str, Any]) -> None:
    other = TreeSummaries((SUMMARIES[0], replace(SUMMARIES[1], **changes)))
    expected = (*points_apart(Rate(620.0, IMAGES), Rate(600.0, IMAGES)), False)
    assert apart(SCAN, GIVEN, MMC, "clean", other) == expected


def test_families_at_equal_ratios_and_small_ratios() -> None:
    more = [counted("trees-orthogonal-0.2", 500, 720, 50), counted("trees-shared-0.1", 400, 730, 40)]
    plain = results(TREES, *SCAN.runs, *more, counted("trees-random-1.4", 600, 690, 90))
    gaps = same_ratio(plain, ORTHOGONAL, RANDOM, "superclass", TreeSummaries())
    assert {ratio: round(gap.size, 6) for ratio, gap in gaps.items()} == {"1": 7.0}
    assert [round(gap.size, 6) for gap in small_ratios(plain, "clean", TreeSummaries())] == [-20.0, -10.0]


@pytest.mark.parametrize(
    ("sizes", "found"),
    [
        ((-20, -10), "did not come true"),
        ((10, 20), "came true"),
        ((-10, 20), "came true in part"),
        ((0, 0.1), "undecided"),
    ],
)
def test_outcomes_at_small_ratios(sizes: tuple[float, ...], found: str) -> None:
    assert small_outcome([Apart(size, size - 1.5, size + 1.5, paired=True) for size in sizes]) == found


# What summaries add


def attacked(arm: str, left: int, *later: int) -> Summary:
    """By a first attack that leaves so many of 1,000, and by later ones that break so many more."""
    clean = stage("clean", 60, IMAGES)
    first = stage("apgd-margin", 0, IMAGES, accuracy=Rate(float(left), IMAGES), broke=9, title="APGD-20, margin")
    others = tuple(stage(f"more-{place}", 0, IMAGES, broke=broke) for place, broke in enumerate(later))
    aside = stage("far", 0, IMAGES, broke=99, counts=False)
    return summary(f"{arm}-seed0", "trees", 5, 60, None, (clean, first, *others, aside), samples=IMAGES)


def test_later_attacks_are_counted_on_what_the_first_one_left() -> None:
    beside, mmc = TreeSummaries((attacked(MMC, 200, 30, 10),)), SCAN.runs[0]
    assert beside.broken_later(mmc) == Rate(40.0, 200)
    assert beside.broken_later(replace(mmc, fingerprint="other")) is None
    assert beside.broken_later(SCAN.runs[1]) is None
    assert TreeSummaries((attacked(MMC, 0),)).broken_later(mmc) is None
    assert beside.attacks == ["APGD-20, margin", "more-0", "more-1"]


def test_the_training_loss_is_of_the_weights_that_were_attacked() -> None:
    epochs = ({"epoch": 1, "train_loss": 15.9},)
    beside = TreeSummaries(runs=(run(f"{MMC}-seed0", [50.0], epochs=epochs, weights={"last": "x"}),))
    assert beside.training_loss(replace(SCAN.runs[0], fingerprint="x")) == 15.9
    assert beside.training_loss(replace(SCAN.runs[0], fingerprint="other")) is None


def test_loss_and_robustness_are_correlated_by_ranks_without_emc() -> None:
    robust = {"trees-orthogonal-0.2": 10, "trees-orthogonal-0.5": 30, GIVEN: 20, "trees-emc-0.1": 999}
    runs = [counted(arm, 600, 700, left if left < 900 else 0) for arm, left in robust.items()]
    losses = [run(f"{arm}-seed0", [50.0], epochs=({"train_loss": float(place)},)) for place, arm in enumerate(robust)]
    # Ranks 1, 2, 3 and 1, 3, 2: 1 − 6 · 2 / (3 · 8) = 0.5
    assert loss_and_robustness(results(TREES, *runs), TreeSummaries(runs=tuple(losses))) == (3, pytest.approx(0.5))


def test_choices_at_the_edge_of_the_scan() -> None:
    def scanned(scores: dict[str, float]) -> Results:
        return results(TREES, *(counted(arm, 600, 700, 90, validation=score) for arm, score in scores.items()))

    assert at_the_edge(scanned({GIVEN: 0.5, "trees-orthogonal-1.4": 0.6}), ORTHOGONAL) == "trees-orthogonal-1.4"
    inside = {"trees-orthogonal-0.5": 0.5, GIVEN: 0.7, "trees-orthogonal-1.4": 0.6}
    assert at_the_edge(scanned(inside), ORTHOGONAL) == ""
    assert at_the_edge(scanned({GIVEN: 0.5}), ORTHOGONAL) == ""
    assert at_the_edge(scanned({"trees-emc-0.1": 0.6, "trees-emc-1.0": 0.5}), EMC) == "trees-emc-0.1"


AT_HM = AT_ORTHOGONAL.names[-1]


def trained(arm: str, seed: int, pgd: float | None, clean: float = 0.3, **train: Any) -> RunSummary:
    scores = {"epoch": 20, "test_accuracy": clean, **({} if pgd is None else {"test_pgd10": pgd})}
    settings: dict[str, Any] = {"method": {"epsilon": "8/255"}}
    for name, value in {**RECIPE, "train.epochs": 20, "train.seed": seed}.items():
        part, _, key = name.partition(".")
        settings.setdefault(part, {})[key] = value
    settings["train"] |= train
    return run(f"{arm}-seed{seed}", [70.0], settings=settings, result={"last": scores})


THEIRS = [trained(AT_MMC, seed, pgd) for seed, pgd in enumerate((0.2, 0.21, 0.22))]
OURS = [trained(AT_HM, seed, pgd, 0.3 + seed / 100) for seed, pgd in enumerate((0.19, 0.22, 0.225))]


def test_adversarial_training_is_compared_by_its_own_scores() -> None:
    ((attacked, clean),) = adversarial_gaps(TreeSummaries(runs=(*THEIRS, *OURS))).values()
    assert attacked.values == pytest.approx((-1.0, 1.0, 0.5))
    assert clean.values == pytest.approx((0.0, 1.0, 2.0))


@pytest.mark.parametrize(
    "ours",
    [[], OURS[:2], [*OURS[:2], trained(AT_HM, 2, None)], [*OURS[:2], trained(AT_HM, 2, 0.2, epochs=200)]],
    ids=["none", "two", "no attack", "another schedule"],
)
def test_fewer_seeds_or_other_schedules_are_not_compared(ours: list[RunSummary]) -> None:
    assert adversarial_gaps(TreeSummaries(runs=(*THEIRS, *ours))) == {}


# The pair that was trained long


def long_pair(ours: float, theirs: float, **changes: Any) -> Long:
    """By how many percent are right on clean images; under PGD-10 ours keeps 60 % and theirs 45 %."""
    stages = ({"pgd10-un-8": 60.0}, {"pgd10-un-8": 45.0})
    found = [
        replace(
            summary(name, "paper-table4", 0.0, share, each, samples=IMAGES), near=np.arange(IMAGES) < 10 * share + 50
        )
        for name, share, each in ((HM, ours, stages[0]), (BASE, theirs, stages[1]))
    ]
    return pair_up_long([found[0]], [replace(found[1], **changes)])


def test_the_long_pair_is_compared_on_the_same_images() -> None:
    long = long_pair(50.0, 55.0)
    assert long.clean is not None
    assert (long.clean.size, long.clean.paired) == (-5.0, True)
    assert long.superclass is not None
    assert long.superclass.size == -5.0
    assert long.within == pytest.approx((10.0, 100 * 50 / 450))
    # Ours is right on the first 50 %: images that an attack turns right do not count.
    assert {kind: gap.size for kind, gap in long.attacked.items()} == {"untargeted": 5.0}
    assert (long.epochs, long.worst) == (200, None)


@pytest.mark.parametrize("changes", [{"data_fingerprint": "other"}, {"suite_version": 2}, {"samples": 999}])
def test_other_images_or_attacks_are_not_paired(changes: dict[str, Any]) -> None:
    long = long_pair(50.0, 55.0, **changes)
    assert (long.pairs, long.clean, long.superclass, long.within, long.attacked) == ((), None, None, None, {})


def test_the_worst_case_of_the_long_pair_is_by_strict() -> None:
    strict = [summary(name, "strict", 0.0, epsilon="8/255", samples=IMAGES) for name in (HM, BASE)]
    assert pair_up_long(strict[:1], strict[1:]).worst == tuple(strict)


def test_the_form_comes_from_the_settings() -> None:
    centers: dict[str, Any] = {"subspaces": "orthogonal", "norms": [5.0, 7.0]}
    assert form_of(centers) == (ORTHOGONAL, 1.4)
    shared = {**centers, "subspaces": "shared", "rotation_seed": -1}
    assert form_of(shared)[0].title == "shared coordinates"
    assert form_of({**shared, "rotation_seed": 3})[0].title == "shared and rotated"
    assert form_of({})[1] is None


# The message


MILD = (*three(MMC, 600, 700, 80), *three(GIVEN, 605, 740, 70))


@pytest.mark.parametrize(
    ("near", "robust", "milder", "gain"),
    [(740, 70, True, False), (700, 70, False, False), (650, 70, False, False), (740, 110, True, True)],
)
def test_the_message_follows_the_numbers(near: int, robust: int, milder: bool, gain: bool) -> None:
    plain = results(TREES, *three(MMC, 600, 700, 80), *three(GIVEN, 605, near, robust))
    found = lead(plain, results(NEAR))
    assert (bool(found["milder"]), bool(found["robust"])) == (milder, gain)
    assert (found["form"], found["epochs"], found["seeds"]) == ("orthogonal subspaces, ratio 1", 7, "three seeds")


def test_the_tree_is_the_cause_if_a_random_one_is_like_mmc() -> None:
    like_mmc = lead(results(TREES, *MILD, *three("trees-random-1.4", 600, 700, 80)), results(NEAR))
    assert (like_mmc["tree"], like_mmc["random_differs"], len(like_mmc["random"])) == (True, [], 5)
    assert like_mmc["over_random"].difference.mean == pytest.approx(4.0)
    better = lead(results(TREES, *MILD, *three("trees-random-1.4", 600, 745, 80)), results(NEAR))
    assert (better["tree"], bool(better["random_differs"])) == (False, True)
    assert lead(results(TREES, *MILD), results(NEAR))["random"] == []


def test_adversarial_training_is_compared_with_itself() -> None:
    arms = (MMC, GIVEN, AT_MMC, AT_HM)
    pairs = {
        (each.arm, each.reference)
        for each in results(STRICT, *(run for arm in arms for run in three(arm, 600, 700, 80))).study.contrasts
    }
    assert pairs == {(GIVEN, MMC), (AT_HM, AT_MMC)}


# Renderings


def page_of(plain: Results, long: Long | None = None, beside: TreeSummaries | None = None, *near: Run) -> str:
    every = corrected([plain, results(NEAR, *near), results(STRICT)])
    return trees_page(every, beside or TreeSummaries(), long or Long())


def test_the_page_leads_with_its_message_and_one_table() -> None:
    plain = results(TREES, *MILD, *three("trees-random-1.4", 600, 700, 80))
    page = page_of(plain, long_pair(50.0, 55.0), TreeSummaries(runs=(*THEIRS, *OURS)))
    top = page.partition("\n## ")[0]
    assert "They help if an error outside the superclass costs more than one inside it; they do not make" in top
    assert "superclass accuracy changes by +4.0 [+3.8, +4.2] points after 7 epochs (orthogonal subspaces, " in top
    assert "and by −5.0 [" in top
    assert "**Robustness does not improve.**" in top
    assert "PGD-10 accuracy at 8/255 by +0.2 [−2.4, +2.8] points" in top
    assert "**The tree is the cause.**" in top
    assert "| MMC-10 | 60.5 ± 0.5 | 70.5 ± 0.5 |" in top
    assert "| orthogonal subspaces, ratio 1 | +0.5 [+0.3, +0.7] | **+4.0 [+3.8, +4.2]** |" in top
    assert "7 epochs, batches of 128, learning rate 0.1 after a warm-up over the first 10 %" in page
    assert "| MMC-10 | 60.0 | 60.0 [56.9, 63.1] |" in page
    assert "`strict` at 1/255 with three seeds: not measured." in page
    assert "not milder" in page_of(results(TREES, *three(MMC, 600, 700, 80), *three(GIVEN, 605, 700, 70)))


def test_the_careful_suite_has_a_table_once_it_was_run() -> None:
    near = [*three(MMC, 600, 700, 60), *three(GIVEN, 605, 740, 20)]
    page = page_of(results(TREES, *MILD), None, None, *near)
    assert "| orthogonal subspaces, ratio 1 vs MMC-10 | **−4.0 [−4.2, −3.8]** |" in page


def test_a_scan_alone_is_not_measured(tmp_path: Path) -> None:
    assert SCAN.study.contrasts == ()
    page = page_of(SCAN)
    assert "No form has three seeds yet: not measured." in page
    assert "| orthogonal subspaces, ratio 1 | 60.0 | 62.0 [58.9, 65.0] |" in page
    assert trees_pages(tmp_path) == {}


def test_figures_are_drawn_from_the_same_results() -> None:
    drawn = draw_figures([results(TREES, *MILD)], TREE_SUMMARIES)
    for name in ("trees-effects.svg", "trees-scan-clean.svg", "trees-scan-near.svg", "trees-convergence.svg"):
        ElementTree.fromstring(drawn[name])
    assert "+2.0 points [+0.7, +3.2]" in draw_figures([SCAN], TREE_SUMMARIES)["trees-scan-clean.svg"]


# Geometry and grids


def test_at_the_even_ratio_hierarchical_centers_are_mmcs_own() -> None:
    outer = 10 / math.hypot(1, even_ratio())
    tree = tree_from_superclasses(CIFAR100_SUPERCLASSES)
    made = hierarchical_centers(tree, 99, (outer, even_ratio() * outer), subspaces="orthogonal")
    distances = torch.pdist(made)
    assert distances.min().item() == pytest.approx(10 * math.sqrt(200 / 99), abs=1e-3)
    assert distances.max().item() == pytest.approx(10 * math.sqrt(200 / 99), abs=1e-3)


def arms_of(grid: str) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for model in load_grid(own("grid", grid)).models:
        arm, _, seed = model.name.rpartition("-seed")
        assert model.settings().train.seed == int(seed)
        found.setdefault(arm, set()).add(int(seed))
    return found


def test_the_grids_train_the_arms_of_the_studies() -> None:
    plain, near, strict = ({arm.name for arm in study.arms} for study in TREE_STUDIES)
    assert near == plain
    scan, learned, seeds = arms_of("trees-scan"), arms_of("trees-learned"), arms_of("trees-seeds")
    assert scan.keys() | learned.keys() == plain
    assert all(each == {0} for each in (*scan.values(), *learned.values(), *arms_of("trees-adversarial").values()))
    assert arms_of("trees-adversarial").keys() <= strict
    for grid, known in (("trees-seeds", plain), ("trees-strict", strict)):
        assert arms_of(grid).keys() <= known
        assert all(each == {0, 1, 2} for each in arms_of(grid).values())
    assert {MMC, AT_MMC} <= arms_of("trees-strict").keys()
    assert arms_of("trees-near") == seeds
    others = {ratio_of(arm) for arm in seeds if arm in (*LEARNED.names, *RANDOM.names)}
    assert others <= {ratio_of(arm) for arm in seeds if arm in ORTHOGONAL.names}
    for study, grid in ((TREES, "trees-seeds"), (TREES, "trees-scan"), (NEAR, "trees-near"), (STRICT, "trees-strict")):
        (evaluation,) = load_grid(own("grid", grid)).evaluations
        suite = load_suite(own("suite", study.suite))
        assert evaluation.suite == own("suite", study.suite)
        assert parse_epsilon(study.epsilon) == parse_epsilon(evaluation.epsilon or suite.epsilon)


@pytest.mark.parametrize("grid", ["trees-scan", "trees-learned", "trees-adversarial"])
def test_every_arm_has_centers_of_mean_square_100_and_the_same_training(grid: str) -> None:
    for model in load_grid(own("grid", grid)).models:
        settings = model.settings()
        options = dict(settings.centers.options)
        assert math.hypot(*options.get("norms", (options.get("norm", 0.0),))) == pytest.approx(10, abs=1e-3)
        assert settings.data.validation > 0
        assert settings.model.feature_dim == 256
        if grid != "trees-adversarial":
            assert settings.train == load_settings(own("preset", "cifar100-trees-mmc")).train
        if "rotated" in model.name or "random" in model.name:
            assert options["rotation_seed" if "rotated" in model.name else "shuffle_seed"] == settings.train.seed
        if "-orthogonal-" in model.name or "-shared-" in model.name or "-rotated-" in model.name:
            outer, inner = options["norms"]
            assert inner / outer == pytest.approx(float(model.name.split("-")[-2]), abs=1e-4)
            assert options["subspaces"] == ("orthogonal" if "orthogonal" in model.name else "shared")
