"""The page about hierarchical centers on CIFAR-100: choices, verdicts, convergence, figures, grids, and its files."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from made_up_summaries import run

from maxmahal import evaluate_models, train_model
from maxmahal.attacks.threats import parse_epsilon
from maxmahal.centers import hierarchical_centers, tree_from_superclasses
from maxmahal.data import CIFAR100_SUPERCLASSES, load_dataset
from maxmahal.evaluate.severity import measure_severity
from maxmahal.evaluate.suite import load_suite
from maxmahal.reproduce import load_grid
from maxmahal.train import load_settings
from paper import own
from paper.pages.trees import trees_pages
from paper.pages.trees_beside import Beside
from paper.pages.trees_long import Long
from paper.pages.trees_rules import choose, epochs_to, head_start, reached
from paper.pages.trees_study import (
    AT_MMC,
    EMC,
    MMC,
    NEAR,
    ORTHOGONAL,
    STRICT,
    TREE_STUDIES,
    TREES,
    with_contrasts,
)
from paper.pages.trees_verdict import verdicts
from paper.pages.trees_words import attacks, centers, even_ratio, training
from paper.pages.variants import STUDIES, collect_study
from paper.pages.variants.results import Results, from_table
from paper.pages.variants.rules import lasting
from paper.pages.variants.spec import Arm, Study

pytestmark = pytest.mark.usefixtures("unchecked")
ABOUT = {"suite": "trees", "suite_version": 1, "norm": "Linf", "epsilon": "1/255", "samples": 1000}
SHARED = {
    "data.source": "cifar100",
    "data.validation": 5000,
    "model.backbone": "resnet32wide",
    "model.feature_dim": 256,
    "train.epochs": 7,
    "train.batch_size": 128,
    "train.lr": 0.1,
    "train.schedule": "linear",
    "train.warmup": 0.1,
    "train.weight_decay": 0.0005,
    "method.name": "standard",
}
CENTERS = {"shortest": 10.0, "longest": 10.0, "nearest": 11.2, "across": 14.3}


def measured(
    arm: str, seed: int, right: int, near: int, robust: int = 100, late: int = 0, validation: float = 0.6
) -> dict[str, Any]:
    """``near`` of the mistakes stay in the superclass; ``late`` epochs at nothing, then a rise of 10 points each."""
    return {
        "arm": arm,
        "seed": seed,
        "settings": {},
        "clean": [right, 1000],
        "robust": [robust, 1000],
        "stages": {},
        "test_accuracy": [0.01] * late + [0.1 * epoch for epoch in range(1, 8)],
        "validation": validation,
        "mistakes": {
            "clean": [right, near, 1000 - right - near],
            "worst": [robust, near, 1000 - robust - near],
        },
        "centers": CENTERS,
    }


def made_up(study: Study, runs: list[dict[str, Any]]) -> Results:
    return with_contrasts(from_table(study, {"about": ABOUT, "shared": SHARED, "runs": runs}))


def seeds(arm: str, right: int, near: int, count: int = 3, **more: Any) -> list[dict[str, Any]]:
    return [measured(arm, seed, right + 5 * seed, near + seed % 2, **more) for seed in range(count)]


def everything() -> list[dict[str, Any]]:
    """Given trees are milder and less accurate; the learned one is worse; seeds move all of them alike."""
    return [
        *seeds(MMC, 600, 150, late=2),
        *seeds("trees-emc-0.1", 605, 150),
        *seeds("trees-orthogonal-1", 570, 250, late=1),
        *seeds("trees-orthogonal-0.5", 560, 260, count=1, validation=0.5),
        *seeds("trees-learned-1", 530, 230),
        *seeds("trees-random-1", 500, 120),
    ]


# Choices


def test_validation_chooses_and_a_choice_against_it_is_told() -> None:
    runs = [
        measured("trees-orthogonal-0.2", 0, 600, 100, validation=0.61),
        measured("trees-orthogonal-0.2", 1, 600, 100, validation=0.9),  # another seed has no say
        measured("trees-orthogonal-0.5", 0, 500, 100, validation=0.63),
        *seeds("trees-orthogonal-1", 700, 100, validation=0.62),
    ]
    choice = choose(made_up(TREES, runs), ORTHOGONAL, Beside())
    assert choice.best == "trees-orthogonal-0.5"  # though others do better on test images
    assert choice.taken == ("trees-orthogonal-1",)
    assert not choice.followed
    agreeing = replace(choice, taken=("trees-orthogonal-0.5",))
    assert agreeing.followed
    assert replace(choice, taken=()).followed
    assert choose(made_up(TREES, runs), EMC, Beside()).best == ""


# Convergence


def test_epochs_to_an_error_are_counted_from_one_and_may_never_come() -> None:
    results = made_up(TREES, [*seeds(MMC, 600, 100, late=2), *seeds("trees-orthogonal-1", 600, 100)])
    slow = next(run for run in results.runs if run.arm == MMC)
    assert (epochs_to(slow, 99), epochs_to(slow, 70), epochs_to(slow, 30), epochs_to(slow, 20)) == (1, 5, 9, None)
    assert reached(results, MMC, 20) == {}
    faster = head_start(results, "trees-orthogonal-1", MMC, 70)
    assert (faster.mean, faster.n) == (-2, 3)


# Verdicts


def row(page: str, start: str) -> str:
    """The line of a table that begins with this cell."""
    (found,) = {line for line in page.splitlines() if line.startswith(f"| {start} |")}
    return found


def verdict_of(runs: list[dict[str, Any]], near: Sequence[dict[str, Any]] = ()) -> str:
    every = [made_up(study, list(each)) for study, each in ((TREES, runs), (NEAR, near), (STRICT, ()))]
    return "\n\n".join(verdicts(every, Long(), lasting(every)))


def test_every_pair_of_arms_has_a_row_with_what_is_higher_and_what_is_lower() -> None:
    told = verdict_of(everything())
    trade = row(told, "orthogonal subspaces, ratio 1 against MMC-10")
    assert trade.endswith("| superclass +7.0, mistakes within +20.8, first epochs +7.8 | clean −3.0 | worst case |")
    assert row(told, "orthogonal subspaces, ratio 1 against random tree, ratio 1").endswith("| – | worst case |")
    assert row(told, "learned tree, ratio 1 against orthogonal subspaces, ratio 1").endswith(" | worst case |")
    assert row(told, "EMC, α 0.1 against MMC-10").split(" | ")[1] == "first epochs +17.6"
    contrasts = made_up(TREES, everything()).study.contrasts
    pairs = [line for line in told.splitlines() if line.startswith("| ") and " against " in line]
    assert len(pairs) == len({(each.arm, each.reference) for each in contrasts})
    assert "hurts" not in told
    same = verdict_of([*seeds(MMC, 600, 150), *seeds("trees-orthogonal-1", 600, 150)])
    assert row(same, "orthogonal subspaces, ratio 1 against MMC-10").split(" | ")[1:3] == ["–", "–"]
    assert "- **Not decided**, for it takes three seeds of both: EMC against MMC, " in same


def test_one_seed_is_scanned_and_not_judged() -> None:
    results = made_up(TREES, [*seeds(MMC, 600, 150), *seeds("trees-orthogonal-1", 500, 150, count=2)])
    assert results.study.contrasts == ()


def test_adversarial_training_is_compared_with_itself() -> None:
    runs = [run for arm in (MMC, "trees-orthogonal-1", AT_MMC, "trees-at-orthogonal-1") for run in seeds(arm, 600, 100)]
    pairs = {(each.arm, each.reference) for each in made_up(STRICT, runs).study.contrasts}
    assert pairs == {("trees-orthogonal-1", MMC), ("trees-at-orthogonal-1", AT_MMC)}


# The page


def pages_of(
    tmp_path: Path, plain: list[dict[str, Any]], strict: list[dict[str, Any]], near: Sequence[dict[str, Any]] = ()
) -> dict[str, str]:
    (tmp_path / "variants").mkdir(exist_ok=True)
    for study, runs in ((TREES, plain), (NEAR, near), (STRICT, strict)):
        if runs:
            about = {**ABOUT, "suite": study.suite, "epsilon": study.epsilon}
            content = {"format": "maxmahal-variants-1", "about": about, "shared": SHARED, "runs": list(runs)}
            (tmp_path / "variants" / f"{study.name}.json").write_text(json.dumps(content))
    return trees_pages(tmp_path)


def test_nothing_is_published_of_nothing(tmp_path: Path) -> None:
    assert trees_pages(tmp_path) == {}


def test_the_whole_page(tmp_path: Path) -> None:
    strict = [run for arm in (AT_MMC, "trees-at-orthogonal-1") for run in seeds(arm, 600, 100)]
    found = pages_of(tmp_path, everything(), strict)
    page = found["trees.md"]
    assert row(page, "AT, orthogonal subspaces, ratio 1 against AT, MMC-10 (`strict` at 8/255)").endswith(
        "| – | – | clean, superclass, mistakes within, worst case, superclass, attacked, mistakes within, attacked |"
    )
    assert "- **In the paper's ball, 8/255, without adversarial training:** not decided, for it takes three" in page
    assert (
        "| against MMC-10, in points, n = 3 | clean | superclass | mistakes within | worst case | first epochs |"
        in page
    )
    assert "| orthogonal subspaces, ratio 1 | **−3.0 [−3.0, −3.0]** | **+7.0 [" in page
    for reference in ("EMC, α 0.1", "random tree, ratio 1", "orthogonal subspaces, ratio 1", "AT, MMC-10"):
        assert f"| against {reference}, in points, n = 3 |" in page
    assert "*The paper* (appendix B.3) *predicts:*" in page
    assert "**Did not come true**" in page
    assert "*What would change this:*" in page
    assert "| MMC-10 | 4.0 | 5.0 |" in page  # epochs to 80 % and 70 %
    assert "| orthogonal subspaces, ratio 1 | 3.0 (−1.0) |" in page  # no interval of whole epochs that agree
    missing = "0.05: not run, 0.1: not run, 0.2: not run"
    chosen = "orthogonal subspaces, ratio 1"
    assert f"| orthogonal subspaces | {missing}, 0.5: 50.0, 1: 60.0, 1.4: not run | {chosen} | {chosen} |" in page
    assert "| MMC-10 | 60.0 | – | MMC-10 |" in page
    assert "| shared coordinates | not run |" in page
    assert "60.0 [56.9, 63.1]" in page
    assert "| 37.5 [32.7, 42.4] |" in page  # 150 of 400 mistakes within the superclass
    assert "| MMC-10 | 10.0 | 11.2 | 14.3 |" in page
    assert "| EMC, α 0.1 | 10.0 at the start | 11.2 at the start | 14.3 at the start |" in page
    assert "*first epochs*: the mean test accuracy after the first 5, on all test images." in page
    assert "Measured on the first 1,000 test images" in page
    assert "from `variants/trees.json` and `variants/trees-strict.json` and the summaries" in page
    assert "not comparable with the given tree's" in page
    drawn = {name for name in found if name.startswith("figures/")}
    assert drawn == {
        "figures/trees-effects.svg",
        "figures/trees-convergence.svg",
        "figures/trees-scan-clean.svg",
        "figures/trees-scan-near.svg",
        "figures/trees-strict-effects.svg",
    }
    for name in drawn:
        ElementTree.fromstring(found[name])
        assert f"({name})" in page


SCAN_FIGURES = {"figures/trees-scan-clean.svg", "figures/trees-scan-near.svg"}


def first_seeds(*grids: str) -> list[dict[str, Any]]:
    return [
        measured(model.name.removesuffix("-seed0"), 0, 600, 150)
        for grid in grids
        for model in load_grid(own("grid", grid)).models
    ]


def test_a_scan_alone_says_what_is_missing(tmp_path: Path) -> None:
    found = pages_of(tmp_path, first_seeds("trees-scan"), [])
    page = found["trees.md"]
    assert (
        "**Three seeds: not run.** `maxmahal reproduce paper/grids/trees-seeds.toml` makes them. Until then an interval"
        in page
    )
    assert (
        "- **Not decided**, for it takes three seeds of both: hierarchical centers against MMC, EMC against MMC" in page
    )
    assert "- **Milder mistakes: not decided**, for it takes three seeds." in page
    assert "- **Clean accuracy: not decided.**\n" in page
    assert "against MMC-10 |" not in page
    assert "comparisons in all" not in page
    assert "*first epochs*" not in page
    assert "trees-strict.json" not in page
    assert "not comparable with the given tree's" not in page
    assert "| learned tree | not run | not run | not run |" in page
    assert "| random tree | 0.2: 60.0, 0.5: 60.0, 1: 60.0, 1.4: 60.0 | random tree, ratio 0.2 | not run |" in page
    assert "**Not run.** The commands above make it." in page
    assert found.keys() == {"trees.md", *SCAN_FIGURES}
    assert all(f"({name})" in page for name in SCAN_FIGURES)


def test_a_learned_tree_stands_beside_the_scan_before_there_are_seeds(tmp_path: Path) -> None:
    found = pages_of(tmp_path, first_seeds("trees-scan", "trees-learned"), [])
    page = found["trees.md"]
    assert "| learned tree | 0.2: 60.0, 0.5: 60.0, 1: 60.0, 1.4: 60.0 | learned tree, ratio 0.2 | not run |" in page
    assert "| learned tree, ratio 0.5 | 60.0 [56.9, 63.1] |" in page
    assert "the learned tree against MMC, the learned tree against the given one, " in page
    assert "**Three seeds: not run.** `maxmahal reproduce paper/grids/trees-seeds.toml` makes them." in page
    assert found.keys() == {"trees.md", *SCAN_FIGURES}
    assert "learned tree, ratio 0.5: +0.0 points [−4.4, +4.4]" in found["figures/trees-scan-clean.svg"]


def test_one_seed_under_strict_attacks_is_not_judged_either(tmp_path: Path) -> None:
    found = pages_of(tmp_path, [], first_seeds("trees-adversarial"))
    page = found["trees.md"]
    assert "`maxmahal reproduce paper/grids/trees-scan.toml` is **not run**." in page
    assert "**Three seeds: not run.** `maxmahal reproduce paper/grids/trees-strict.toml` makes them." in page
    assert "| AT, orthogonal subspaces, ratio 1 | 60.0 [56.9, 63.1] |" in page
    assert found.keys() == {"trees.md"}


def test_the_careful_suite_stands_beside_the_short_one_and_gives_a_verdict_of_its_own(tmp_path: Path) -> None:
    page = pages_of(tmp_path, everything(), [])["trees.md"]
    assert "| MMC-10 | 10.0 ± 0.0 | not run | not run | not run | – |" in page
    near = [*seeds(MMC, 600, 150, robust=80), *seeds("trees-orthogonal-1", 570, 250, robust=40)]
    page = pages_of(tmp_path, everything(), [], near)["trees.md"]
    assert "| MMC-10 | 10.0 ± 0.0 | not run | not run | 8.0 ± 0.0 | – |" in page
    difference = "−4.0 points [−4.0, −4.0], n = 3"
    assert f"| orthogonal subspaces, ratio 1 | 10.0 ± 0.0 | not run | not run | 4.0 ± 0.0 | {difference} |" in page
    assert "| learned tree, ratio 1 | 10.0 ± 0.0 | not run | not run | not run | not run |" in page
    told = row(page, "orthogonal subspaces, ratio 1 against MMC-10 (`strict` at 1/255)")
    assert told.endswith("| – | worst case −4.0 | – |")


@pytest.mark.parametrize("study", [TREES, STRICT], ids=lambda study: study.name)
def test_arms_with_seeds_beside_a_reference_with_one_are_not_judged(tmp_path: Path, study: Study) -> None:
    runs = [measured(MMC, 0, 600, 150), *seeds("trees-orthogonal-1", 500, 150)]
    found = pages_of(tmp_path, *((runs, []) if study is TREES else ([], runs)))
    page = found["trees.md"]
    assert page.count("**Three seeds: not run.**") == 1
    assert "against MMC-10 |" not in page
    assert all(f"({name})" in page for name in found if name != "trees.md")  # no figure without a place


def test_seeds_whose_scan_is_not_there_make_a_page_too(tmp_path: Path) -> None:
    later = [run for run in everything() if run["seed"]]
    page = pages_of(tmp_path, later, [])["trees.md"]
    assert "**Three seeds: not run.**" in page
    assert "| EMC | not run | not run | not run |" in page


def test_the_effects_have_an_interval_for_each_arm_and_measure(tmp_path: Path) -> None:
    found = pages_of(tmp_path, everything(), [])["figures/trees-effects.svg"]
    arms, measures = 4, 5
    assert found.count('class="mark') == arms * measures
    assert found.count('class="line') == arms * measures + 1  # and MMC's zero


def test_every_form_has_a_mark_a_ratio_and_an_interval(tmp_path: Path) -> None:
    found = pages_of(tmp_path, first_seeds("trees-scan"), [])["figures/trees-scan-clean.svg"]
    forms, ratios = 4, 4  # the three given ones and the random tree, from 0.2 on
    assert found.count('class="mark') == forms * ratios
    assert found.count('class="line') == forms * ratios + 1  # and MMC's zero
    assert "points more than MMC-10" in found


def test_how_arms_were_trained_comes_from_their_settings(tmp_path: Path) -> None:
    page = pages_of(tmp_path, everything(), [])["trees.md"]
    told = "7 epochs in batches of 128, learning rate 0.1, rising over the first 10 % and falling linearly to 0, "
    assert f"All arms: ResNet-32 with 256 pooled values (`resnet32wide`), {told}" in page
    runs = [measured(MMC, 0, 600, 150), measured("trees-orthogonal-1", 0, 600, 150)]
    runs[0]["settings"] = {"train.epochs": 8}
    each = training(made_up(TREES, runs), Beside())
    assert "- MMC-10: ResNet-32 with 256 pooled values (`resnet32wide`), 8 epochs" in each
    assert "- orthogonal subspaces, ratio 1: ResNet-32 with 256 pooled values (`resnet32wide`), 7" in each
    assert training(from_table(TREES, {"about": ABOUT, "runs": runs}), Beside()) == ""


def test_arms_that_wait_for_attacks_have_their_own_training_told() -> None:
    settings: dict[str, Any] = {}
    for name, value in {**SHARED, "method.name": "adversarial", "train.epochs": 3, "train.lr": 0.2}.items():
        part, _, key = name.partition(".")
        settings.setdefault(part, {})[key] = value
    beside = Beside(runs=(run(f"{AT_MMC}-seed0", [50.0], settings={"about": "x", **settings}),))
    attacked = made_up(STRICT, [measured(MMC, 0, 600, 150)])
    told = training(attacked, beside, (AT_MMC, "trees-at-orthogonal-1")).splitlines()
    assert len(told) == 2
    assert told[0].startswith("- MMC-10: ResNet-32 with 256 pooled values (`resnet32wide`), 7 epochs")
    assert told[1].startswith(
        "- AT, MMC-10: ResNet-32 with 256 pooled values (`resnet32wide`), adversarial training, 3"
    )
    assert "learning rate 0.2" in told[1]
    assert training(attacked, beside).startswith("All arms: ")


def test_all_test_images_are_called_all() -> None:
    results = made_up(TREES, everything())
    whole = replace(results, about={**ABOUT, "samples": 10_000})
    assert "Measured on all 10,000 test images" in attacks(whole)


def test_at_the_even_ratio_hierarchical_centers_are_mmcs_own() -> None:
    outer = 10 / math.hypot(1, even_ratio())
    made = hierarchical_centers(
        tree_from_superclasses(CIFAR100_SUPERCLASSES), 99, (outer, even_ratio() * outer), subspaces="orthogonal"
    )
    apart = torch.pdist(made)
    assert apart.min().item() == pytest.approx(10 * math.sqrt(200 / 99), abs=1e-3)
    assert apart.max().item() == pytest.approx(10 * math.sqrt(200 / 99), abs=1e-3)
    assert f"= {even_ratio():.2f} centers" in centers()


def test_the_page_of_variants_leads_here() -> None:
    (small,) = (study for study in STUDIES if study.name == "hierarchical")
    assert "[trees.md](trees.md)" in small.without


# Grids


def arms_of(grid: str) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for model in load_grid(own("grid", grid)).models:
        arm, _, seed = model.name.rpartition("-seed")
        assert model.settings().train.seed == int(seed)
        found.setdefault(arm, set()).add(int(seed))
    return found


def test_the_grids_train_what_the_page_speaks_of() -> None:
    plain, near, strict = ({arm.name for arm in study.arms} for study in TREE_STUDIES)
    assert near == plain
    scan, learned = arms_of("trees-scan"), arms_of("trees-learned")
    assert scan.keys() | learned.keys() == plain
    assert all(each == {0} for each in (*scan.values(), *learned.values(), *arms_of("trees-adversarial").values()))
    assert arms_of("trees-adversarial").keys() <= strict
    for grid, known in (("trees-seeds", plain), ("trees-strict", strict)):
        assert arms_of(grid).keys() <= known
        assert all(each == {0, 1, 2} for each in arms_of(grid).values())
    assert {MMC, AT_MMC} <= arms_of("trees-strict").keys()
    assert arms_of("trees-near") == arms_of("trees-seeds")
    grids = ((TREES, "trees-seeds"), (TREES, "trees-scan"), (NEAR, "trees-near"), (STRICT, "trees-strict"))
    for study, grid in grids:
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


def test_superclasses_are_those_of_cifar100() -> None:
    assert all(study.superclasses == CIFAR100_SUPERCLASSES for study in TREE_STUDIES)
    assert all(study.contrasts == () for study in TREE_STUDIES)  # decided by what was run
    for study in TREE_STUDIES:
        assert len({arm.title for arm in study.arms}) == len({arm.tick for arm in study.arms}) == len(study.arms)


# From a reproduction's folder, on the digits


def test_severity_choice_and_geometry_are_collected(tmp_path: Path) -> None:
    source = "maxmahal.data.digits_tree:by_shape"
    superclasses = load_dataset(source, "test").superclasses
    assert superclasses is not None
    study = Study(
        "small", "t", "a", (Arm("a", "a", "a"), Arm("b", "b", "b")), (), suite="small", superclasses=superclasses
    )
    suite = tmp_path / "small.toml"
    suite.write_text(
        'version = 1\nabout = "x"\nepsilon = "0.05"\n[[stage]]\nname = "p"\ntitle = "P"\nattack = "pgd"\nsteps = 2\n'
    )
    small = [f"data.source={source}", "train.epochs=1", "data.limit=150", "data.validation=50", "data.test_limit=40"]
    presets = {"a-seed0": "digits-mmc-hierarchical", "b-seed1": "digits-mmc"}
    for name, preset in presets.items():
        train_model(load_settings(own("preset", preset), small), tmp_path / "models" / name)
    found = evaluate_models(
        {name: tmp_path / "models" / name for name in presets}, suite=suite, out=tmp_path / "records", data=source
    )
    content = collect_study(study, found, tmp_path / "models")
    assert content is not None
    results = from_table(study, json.loads(json.dumps(content)))
    first, second = results.runs
    severity = measure_severity(found[0], superclasses)
    assert first.mistakes == {"clean": severity.clean, "worst": severity.attacked}
    assert first.value("superclass") == 100 * severity.clean.superclass_accuracy.value
    assert first.value("worst-superclass") == 100 * severity.attacked.superclass_accuracy.value
    assert severity.clean.within is not None
    assert severity.attacked.within is not None
    assert first.value("near") == 100 * severity.clean.within.value
    assert first.value("worst-near") == 100 * severity.attacked.within.value
    assert first.validation is not None
    assert first.validation == pytest.approx(_last(tmp_path / "models" / "a-seed0")["validation_accuracy"], abs=1e-4)
    # norms 9.578 and 2.873: two of three siblings lie 2.873·√3 apart, two of four 2.873·√(8/3)
    assert first.centers["nearest"] == pytest.approx(2.873 * math.sqrt(8 / 3), abs=2e-3)
    assert first.centers["across"] == pytest.approx(math.sqrt(3 * 9.578**2 + 2 * 2.873**2), abs=2e-3)
    assert (first.centers["shortest"], first.centers["longest"]) == pytest.approx((10, 10), abs=2e-3)
    assert second.centers["nearest"] == second.centers["across"] == pytest.approx(10 * math.sqrt(20 / 9), abs=2e-3)


def test_what_was_not_measured_has_no_value() -> None:
    run = {key: value for key, value in measured(MMC, 0, 600, 1).items() if key != "mistakes"}
    results = made_up(TREES, [run, measured("trees-orthogonal-1", 0, 1000, 0)])
    assert results.of(MMC, "near") == {}
    assert results.of("trees-orthogonal-1", "near") == {}  # no mistakes at all
    assert results.of("trees-orthogonal-1", "superclass") == {0: 100.0}


def _last(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1]))
