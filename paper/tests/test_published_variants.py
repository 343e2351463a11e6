"""The page about variants: intervals, verdicts driven to each outcome, predictions, grids, and what is not run."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from maxmahal import evaluate_models, train_model
from maxmahal.data import load_dataset
from maxmahal.evaluate import Evaluation
from maxmahal.evaluate.suite import load_suite
from maxmahal.records.schema import RecordsError
from maxmahal.reproduce import load_grid
from maxmahal.train import Settings
from paper import own
from paper.pages.paired import Difference, paired, survives_correction
from paper.pages.variants import STUDIES, collect_study, variant_pages
from paper.pages.variants.figures import draw
from paper.pages.variants.page import variants_page
from paper.pages.variants.results import Results, from_table, read_results
from paper.pages.variants.rules import (
    is_run,
    judge,
    lasting,
    outcome,
    sentences,
    tally,
    verdict_line,
)
from paper.pages.variants.spec import Contrast, Expected, Prediction, Study

pytestmark = pytest.mark.usefixtures("unchecked")
BY_NAME = {study.name: study for study in STUDIES}
ABOUT = {"suite": "variants", "suite_version": 1, "norm": "Linf", "epsilon": "0.1", "samples": 500}


def measured(arm: str, seed: int, clean: int, robust: int, early: float = 0.5) -> dict[str, Any]:
    return {
        "arm": arm,
        "seed": seed,
        "settings": {},
        "clean": [clean, 500],
        "robust": [robust, 500],
        "stages": {"apgd-margin": [robust + 5, 500], "apgd-own-loss": [robust + 50, 500]},
        "test_accuracy": [early] * 5 + [0.9],
    }


def made_up(study: Study, **robust: list[int]) -> Results:
    """``arm=[robust of seed 0, of seed 1, ...]``, of 500; underscores stand for hyphens and p for a point."""
    names = {arm.name.replace("-", "_").replace(".", "p"): arm.name for arm in study.arms}
    runs = [
        measured(names[f"variants_{arm}"], seed, 490, value)
        for arm, values in robust.items()
        for seed, value in enumerate(values)
    ]
    return from_table(study, {"about": ABOUT, "runs": runs})


# Intervals


def test_an_interval_by_hand() -> None:
    found = Difference((1.0, 2.0, 6.0))  # mean 3, squares 4 + 1 + 9 = 14, s = √7, s/√3 = 1.5275
    assert found.mean == 3
    assert found.deviation == pytest.approx(math.sqrt(7))
    assert found.interval == pytest.approx((3 - 4.3027 * 1.5275, 3 + 4.3027 * 1.5275), abs=1e-3)


def test_only_seeds_that_both_have_are_paired() -> None:
    assert paired({0: 5.0, 1: 7.0, 3: 9.0}, {1: 4.0, 0: 4.0, 2: 1.0}).values == (1.0, 3.0)


def test_a_pair_is_closer_than_two_heaps() -> None:
    """Seeds that are good or bad for both do not widen the interval."""
    assert paired({0: 11.0, 1: 51.0, 2: 91.0}, {0: 10.0, 1: 50.0, 2: 90.0}).interval == pytest.approx((1, 1))


def test_more_seeds_for_a_narrower_interval() -> None:
    found = Difference((1.0, 2.0, 6.0))
    count = found.seeds_for(1.0)
    assert count == 30  # t of 29 degrees is 2.0452: 2.0452 · √7 / √30 = 0.988; with 29 seeds it is 1.006
    assert found.seeds_for(100.0) == 2


def test_a_paired_t_test_by_hand() -> None:
    found = Difference((1.0, 2.0, 6.0))  # t = 3 / 1.5275 = 1.964 with 2 degrees: p = 1 − t / √(t² + 2)
    assert found.p_value == pytest.approx(1 - 1.96396 / math.sqrt(1.96396**2 + 2), abs=1e-5)
    assert Difference((1.0, 1.0)).p_value == 0
    assert Difference((1.0, -1.0)).p_value == Difference((3.0,)).p_value == 1


def test_many_tests_are_corrected_together() -> None:
    """Thresholds are 0.0125, 0.025, 0.0375 and 0.05: the third passes, and with it the second, which fails its own."""
    assert survives_correction([0.9, 0.03, 0.01, 0.026]) == [False, True, True, True]
    assert survives_correction([0.9, 0.04, 0.01, 0.026]) == [False, False, True, False]
    assert survives_correction([]) == []


# Verdicts


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((4.0, 5.0, 6.0), "helps"),
        ((-4.0, -5.0, -6.0), "hurts"),
        ((-4.0, 5.0, 6.0), "no difference seen"),
        ((0.4, 0.5, 0.6), "no difference seen"),  # sure, and too small to matter
        ((-0.4, -0.5, -0.6), "no difference seen"),
        ((5.0, 5.0), "not run"),  # two that agree prove nothing
        ((5.0,), "not run"),
        ((), "not run"),
    ],
)
def test_every_verdict(values: tuple[float, ...], verdict: str) -> None:
    assert Difference(values).verdict() == verdict


PAIRING = BY_NAME["pairing"]
STEADY = [200, 210, 220]


@pytest.mark.parametrize(
    ("study", "place", "robust", "expected"),
    [
        ("pairing", 0, {"pairing_0p5": [201, 210, 220], "pairing_2p0": [200, 211, 220]}, "came true"),
        ("pairing", 0, {"pairing_0p5": [301, 310, 320], "pairing_2p0": [300, 311, 320]}, "did not come true"),
        ("pairing", 0, {"pairing_0p5": [201, 210, 220], "pairing_2p0": [300, 311, 320]}, "came true in part"),
        ("pairing", 0, {"pairing_0p5": [100, 210, 320], "pairing_2p0": [320, 210, 120]}, "undecided"),
        ("pairing", 0, {"pairing_0p5": [201, 210, 220]}, "not run"),
        ("forms", 3, {"at_absolute": [100, 112, 121], "at_huber": [101, 111, 120]}, "came true"),
        ("forms", 3, {"at_absolute": [300, 312, 321], "at_huber": [301, 311, 320]}, "did not come true"),
        ("forms", 3, {"at_absolute": [200, 211, 220], "at_huber": [201, 210, 220]}, "did not come true"),
        ("forms", 3, {"at_absolute": [100, 210, 320], "at_huber": [320, 210, 120]}, "undecided"),
        ("forms", 3, {"at_absolute": [100, 112, 121], "at_huber": [301, 311, 320]}, "came true in part"),
    ],
)
def test_every_outcome_of_a_prediction(study: str, place: int, robust: dict[str, list[int]], expected: str) -> None:
    reference = {"pairing": "pairing_0p0", "forms": "at_squared"}[study]
    results = made_up(BY_NAME[study], **{reference: STEADY}, **robust)
    wanted: Expected = "equal" if study == "pairing" else "hurts"
    prediction = replace(BY_NAME[study].predictions[place], expected=wanted)
    assert outcome(results, prediction, lasting([results])) == expected


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ([190, 200, 211], "came true"),
        ([230, 240, 251], "did not come true"),
        ([100, 210, 320], "undecided"),
        ([200, 211, 220], "came true"),
    ],
)
def test_that_nothing_helps_is_a_prediction_too(other: list[int], expected: str) -> None:
    study = BY_NAME["norm"]
    contrast = Contrast("variants-norm-1", "variants-mmc", "worst")
    prediction = Prediction("x", "y", (contrast,), "does not help")
    results = made_up(study, mmc=STEADY, norm_1=other)
    assert outcome(results, prediction, lasting([results])) == expected


def test_early_accuracy_is_that_of_the_first_epochs() -> None:
    study = BY_NAME["forms"]
    runs = [measured("variants-mmc", seed, 490, 200, early=0.8 + seed / 100) for seed in range(3)]
    runs += [measured("variants-clean-huber", seed, 490, 200, early=0.6 + seed / 100) for seed in range(3)]
    results = from_table(study, {"about": ABOUT, "runs": runs})
    judged = judge(results, Contrast("variants-clean-huber", "variants-mmc", "early"))
    assert (round(judged.difference.mean, 6), judged.verdict) == (-20, "hurts")


# Words


def test_the_paragraph_says_effect_interval_seeds_verdict_and_what_would_change_it() -> None:
    results = made_up(BY_NAME["emc"], mmc=STEADY, emc_0p1=[240, 250, 262], emc_1p0=[150, 161, 170], emc_10p0=STEADY)
    text = "\n".join(sentences(results, lasting([results])))
    assert "**Helps:** EMC, α = 0.1 against MMC-10, worst-case accuracy +8.1 points [+7.6, +8.7], n = 3." in text
    assert "**Hurts:** EMC, α = 1 against MMC-10, worst-case accuracy −9.9 points" in text
    assert "**No difference seen** in 4 of 8 comparisons" in text
    assert "**Not run** in 2 of 8 comparisons" in text
    assert "*The paper* (appendix B.3) *predicts:*" in text
    assert "*What would change this:* the closest call" in text
    assert verdict_line(results, lasting([results])) == "helps: EMC, α = 0.1; hurts: EMC, α = 1"


def test_a_page_of_nothing_is_empty_and_a_study_that_was_not_run_says_so() -> None:
    nothing = [Results(study, {}, ()) for study in STUDIES]
    assert variants_page(nothing) == ""
    assert tally(nothing) == "Nothing was run yet."
    some = [made_up(BY_NAME["emc"], mmc=STEADY, emc_0p1=STEADY), *nothing[1:]]
    page = variants_page(some)
    assert page.count("**Not run.**") == len(STUDIES) - 1
    assert page.count("| not run |") >= 3
    assert "figures/variants-emc.svg" in page
    assert "figures/variants-norm.svg" not in page


def test_a_reference_that_other_studies_share_is_no_run_of_a_study() -> None:
    assert not is_run(made_up(BY_NAME["norm"], mmc=STEADY))
    assert is_run(made_up(BY_NAME["norm"], mmc=STEADY, norm_1=STEADY))


def test_the_table_names_the_strongest_attack_on_every_sample() -> None:
    page = variants_page([made_up(BY_NAME["emc"], mmc=STEADY, emc_0p1=STEADY)])
    assert "| MMC-10 | 3 | 98.0 ± 0.0 | 42.0 ± 2.0 | 50.0 ± 0.0 | 43.0 (apgd-margin) |" in page


def test_a_figure_has_a_dot_a_seed_and_both_colour_schemes() -> None:
    text = draw(made_up(BY_NAME["emc"], mmc=STEADY, emc_0p1=[240, 250, 262]))
    ElementTree.fromstring(text)
    assert text.count('class="mark s0"') == text.count('class="mark s1"') == 6
    assert "prefers-color-scheme:dark" in text
    assert "α=0.1" in text
    assert "α=10" not in text  # not run, so not drawn


# Files


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "variants").mkdir()
    path = tmp_path / "variants" / "emc.json"
    path.write_text('{"format": "maxmahal-variants-1", "runs": [{"arm": "x"}], "about": {}}')
    with pytest.raises(RecordsError, match=r"emc\.json is damaged"):
        read_results(tmp_path)
    path.write_text('{"format": "other"}')
    with pytest.raises(RecordsError, match="collect it again"):
        read_results(tmp_path)


def test_no_folder_no_pages(tmp_path: Path) -> None:
    assert variant_pages(tmp_path) == {}


# Grids


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_the_grid_trains_the_arms_of_the_page_and_nothing_else(study: Study) -> None:
    grid = load_grid(own("grid", f"variants-{study.name}"))
    found: dict[str, set[int]] = {}
    for model in grid.models:
        arm, _, seed = model.name.rpartition("-seed")
        found.setdefault(arm, set()).add(int(seed))
        assert model.settings().train.seed == int(seed)
    assert set(found) == {arm.name for arm in study.arms}
    assert all(len(seeds) >= 3 for seeds in found.values())
    assert [evaluation.suite for evaluation in grid.evaluations] == [own("suite", "variants")]
    load_suite(own("suite", "variants"))


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_tests_and_predictions_speak_of_known_arms(study: Study) -> None:
    known = {arm.name for arm in study.arms}
    contrasts = [*study.contrasts, *(contrast for each in study.predictions for contrast in each.contrasts)]
    assert {contrast.arm for contrast in contrasts} | {contrast.reference for contrast in contrasts} <= known
    assert all(contrast.arm != contrast.reference for contrast in contrasts)
    assert study.predictions or study.without
    assert len({arm.title for arm in study.arms}) == len({arm.tick for arm in study.arms}) == len(study.arms)


def test_runs_of_one_seed_differ_in_nothing_but_what_the_study_asks() -> None:
    """Paired seeds mean the same weights, batches and labels."""
    models = {model.name: model.settings() for model in load_grid(own("grid", "variants-forms")).models}
    noisy, clean = models["variants-noise40-huber-seed1"], models["variants-noise40-squared-seed1"]
    assert (noisy.data, noisy.model, noisy.train.seed) == (clean.data, clean.model, clean.train.seed)
    assert noisy.data.label_noise == 0.4


@pytest.mark.parametrize("tree", ["by_shape", "by_value"])
def test_the_trees_of_the_digits_cover_all_classes_and_keep_the_images(tree: str) -> None:
    plain, data = load_dataset("digits", "test"), load_dataset(f"maxmahal.data.digits_tree:{tree}", "test")
    assert sorted(data.superclasses or ()) == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert (data.images == plain.images).all()
    assert (data.labels == plain.labels).all()
    assert data.coarse_labels is not None
    assert data.coarse_labels.tolist() == [(data.superclasses or ())[label] for label in data.labels]


def test_hierarchical_centers_of_the_grid_have_the_length_of_mmc() -> None:
    for model in load_grid(own("grid", "variants-hierarchical")).models:
        norms = dict(model.settings().centers.options).get("norms")
        if norms is not None:
            assert math.hypot(*norms) == pytest.approx(10, abs=2e-3)


# From a reproduction's folder


def test_what_was_run_is_collected_with_what_differs(tiny_settings: Callable[..., Settings], tmp_path: Path) -> None:
    suite = tmp_path / "variants.toml"
    suite.write_text(
        'version = 1\nabout = "x"\nepsilon = "0.05"\n'
        '[[stage]]\nname = "p"\ntitle = "P"\nattack = "pgd"\nscope = "all"\nsteps = 2\n'
        '[[stage]]\nname = "q"\ntitle = "Q"\nattack = "pgd"\nsteps = 2\n'
    )
    models = {"variants-mmc-seed0": [], "variants-emc-0.1-seed0": ["loss.name=emc", "loss.alpha=0.1"], "other": []}
    for name, overrides in models.items():
        train_model(tiny_settings("digits-mmc", "train.epochs=1", *overrides), tmp_path / "models" / name)
    found = evaluate_models(
        {name: tmp_path / "models" / name for name in models}, suite=suite, out=tmp_path / "records"
    )
    content = collect_study(BY_NAME["emc"], found, tmp_path / "models")
    assert content is not None
    results = from_table(BY_NAME["emc"], json.loads(json.dumps(content)))
    assert [(run.arm, run.seed) for run in results.runs] == [("variants-emc-0.1", 0), ("variants-mmc", 0)]
    assert results.runs[0].settings == {"loss.name": "emc", "loss.alpha": 0.1}
    assert list(results.runs[0].stages) == ["p"]  # the other attack saw survivors alone
    assert results.runs[1].value("clean") == 100 * found[0].stage("clean").columns.right_share.mean()
    assert results.runs[1].value("worst") <= results.runs[1].value("clean")
    assert len(results.runs[0].test_accuracy) == 1
    assert collect_study(BY_NAME["norm"], [], tmp_path / "models") is None


def attacks_on_one_run(folder: Path, epsilon: str) -> Callable[[str], Evaluation]:
    """The one run in the folder, attacked within any epsilon by a suite that names ``epsilon``."""
    name, suite = "variants-mmc-seed0", folder / "variants.toml"
    stage = '[[stage]]\nname = "p"\ntitle = "P"\nattack = "pgd"\nsteps = 1\n'
    suite.write_text(f'version = 1\nabout = "x"\nepsilon = "{epsilon}"\n{stage}')

    def attacked(asked: str) -> Evaluation:
        out = folder / f"records-{asked.replace('/', '-')}"
        (found,) = evaluate_models({name: folder / "models" / name}, suite=suite, out=out, epsilon=asked)
        return found

    return attacked


def test_runs_that_were_attacked_differently_are_not_compared(
    tiny_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    train_model(tiny_settings("digits-mmc", "train.epochs=1"), tmp_path / "models" / "variants-mmc-seed0")
    attacked = attacks_on_one_run(tmp_path, "0.05")
    found = [attacked(epsilon) for epsilon in ("0.05", "0.1")]
    with pytest.raises(RecordsError, match="not all attacked alike"):
        collect_study(BY_NAME["emc"], found, tmp_path / "models")
    again = replace(found[0], seed=1)  # of the attacks: one run would count twice
    with pytest.raises(RecordsError, match="keep one evaluation a run"):
        collect_study(BY_NAME["emc"], [found[0], again], tmp_path / "models")


def test_records_of_one_suite_in_another_ball_are_left_out(
    tiny_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    """One folder may hold several: a study takes those of its own ball, or none."""
    train_model(tiny_settings("digits-mmc", "train.epochs=1"), tmp_path / "models" / "variants-mmc-seed0")
    attacked = attacks_on_one_run(tmp_path, "8/255")
    wide, near = attacked("8/255"), attacked("1/255")
    study = replace(BY_NAME["emc"], epsilon="1/255")
    assert collect_study(study, [wide], tmp_path / "models") is None
    content = collect_study(study, [wide, near], tmp_path / "models")
    assert content is not None
    assert content["about"]["epsilon"] == "1/255"
    assert len(content["runs"]) == 1
