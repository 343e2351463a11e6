"""The page about variants: its studies and grids, and renderings from made-up results."""

import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from maxmahal.data import load_dataset
from maxmahal.evaluate.suite import load_suite
from maxmahal.reproduce import load_grid
from paper import own
from paper.pages.study import Results, Study, corrected, from_table
from paper.pages.variants import STUDIES, draw, variant_pages, variants_page

pytestmark = pytest.mark.usefixtures("unchecked")
BY_NAME = {study.name: study for study in STUDIES}
ABOUT = {"suite": "variants", "suite_version": 1, "norm": "Linf", "epsilon": "0.1", "samples": 500}
STEADY = [200, 210, 220]


def measured(arm: str, seed: int, robust: int) -> dict[str, Any]:
    return {
        "arm": arm,
        "seed": seed,
        "settings": {},
        "clean": [490, 500],
        "robust": [robust, 500],
        "stages": {"apgd-margin": [robust + 5, 500], "apgd-own-loss": [robust + 50, 500]},
        "test_accuracy": [0.5] * 5 + [0.9],
    }


def made_up(study: Study, **robust: list[int]) -> Results:
    """``arm=[robust of seed 0, of seed 1, ...]``, of 500; underscores mean hyphens and p for a point."""
    names = {arm.name.replace("-", "_").replace(".", "p"): arm.name for arm in study.arms}
    runs = [
        measured(names[f"variants_{arm}"], seed, value)
        for arm, values in robust.items()
        for seed, value in enumerate(values)
    ]
    return from_table(study, {"about": ABOUT, "runs": runs})


def page_of(results: Results) -> list[str]:
    every = [results if study is results.study else Results(study, {}, ()) for study in STUDIES]
    return variants_page(corrected(every)).splitlines()


def test_a_study_is_shown_by_its_tables() -> None:
    page = page_of(
        made_up(BY_NAME["emc"], mmc=STEADY, emc_0p01=STEADY, emc_0p1=[240, 250, 262], emc_1p0=[150, 161, 170])
    )
    assert "| MMC-10 | 3 | 98.0 ± 0.0 | 42.0 ± 2.0 | 50.0 ± 0.0 | 43.0 (apgd-margin) |" in page
    assert "| EMC, α = 0.1 vs MMC-10 | +0.0 [+0.0, +0.0] | **+8.1 [+7.6, +8.7]** |" in page
    assert "| EMC, α = 10 | 0 | not run | not run | not run | not run |" in page
    (line,) = [each for each in page if each.startswith("| [elastic centers]")]
    assert "| helps: EMC, α = 0.1; hurts: EMC, α = 1 | a very small α changes nothing: **came true** |" in line
    assert any("variants of *elastic centers* help" in each for each in page)
    assert "![Elastic centers (Eq. 21)](figures/variants-emc.svg)" in page


def test_studies_that_were_not_run_say_so() -> None:
    page = page_of(made_up(BY_NAME["emc"], mmc=STEADY, emc_0p1=STEADY))
    assert "`maxmahal reproduce paper/grids/variants-norm.toml`: not run." in page
    (line,) = [each for each in page if each.startswith("| [norm of the centers]")]
    assert "| not run | no norm is more robust than C = 10: **not run** |" in line
    assert not any("figures/variants-norm.svg" in each for each in page)


def test_a_verdict_is_not_withdrawn_by_another_comparison_that_may_be_chance() -> None:
    arms = {"mmc": STEADY, "shape_0p3": [100, 111, 121], "value_0p3": [92, 110, 121]}
    (line,) = [each for each in page_of(made_up(BY_NAME["hierarchical"], **arms)) if "[hierarchical centers]" in each]
    assert "| hurts: by shape, ratio 0.3 |" in line


def test_no_data_no_pages(tmp_path: Path) -> None:
    assert variant_pages(tmp_path) == {}


def test_a_figure_has_a_dot_for_each_seed() -> None:
    text = draw(made_up(BY_NAME["emc"], mmc=STEADY, emc_0p1=[240, 250, 262]))
    ElementTree.fromstring(text)
    assert "α=0.1" in text
    assert "α=10" not in text  # not run, so not drawn


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_the_grid_trains_the_arms_of_the_study(study: Study) -> None:
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
def test_comparisons_are_of_known_arms(study: Study) -> None:
    known = {arm.name for arm in study.arms}
    assert {name for each in study.comparisons for name in (each.arm, each.reference)} <= known
    assert all(each.arm != each.reference for each in study.comparisons)
    assert len({arm.title for arm in study.arms}) == len({arm.tick for arm in study.arms}) == len(study.arms)


def test_runs_of_one_seed_differ_only_in_what_the_study_varies() -> None:
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
