"""Files of studies: collected from a folder, merged in steps, and refused if damaged or attacked differently."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from maxmahal import evaluate_models, train_model
from maxmahal.data import load_dataset
from maxmahal.evaluate import Evaluation
from maxmahal.records.schema import RecordsError
from maxmahal.train import load_settings
from paper import own
from paper.pages.study import from_table
from paper.pages.study_files import assemble, collect_study, merge_tables, read_results, run_name, whole_runs
from paper.pages.trees_study import TREES
from paper.pages.variants import STUDIES
from paper.summaries.severity import measure_severity

pytestmark = pytest.mark.usefixtures("unchecked")
EMC = next(study for study in STUDIES if study.name == "emc")

ABOUT = {"suite": "trees", "suite_version": 1, "norm": "Linf", "epsilon": "1/255", "samples": 9}
BATCH = {"train.batch_size": 128}


def run(arm: str, seed: int, weights: str, robust: int = 5, settings: dict[str, Any] | None = None) -> dict[str, Any]:
    """As a folder holds it, with all its settings."""
    return {
        "arm": arm,
        "seed": seed,
        "fingerprint": weights,
        "versions": {"torch": "1"},
        "settings": {**BATCH, "train.seed": seed, **(settings or {})},
        "clean": [7, 9],
        "robust": [robust, 9],
        "stages": {},
        "test_accuracy": [0.5],
    }


def table(*runs: dict[str, Any], **about: Any) -> dict[str, Any]:
    return assemble("trees", {**ABOUT, **about}, runs)


def merged(old: dict[str, Any] | None, new: dict[str, Any] | None, **weights: str) -> tuple[Any, list[str]]:
    """With the weights of ``new``, and those of runs that only another study has met."""
    found = {run_name(each): each["fingerprint"] for each in (new or {"runs": []})["runs"]}
    return merge_tables("trees", old, new, {**found, **weights})


def left(content: dict[str, Any]) -> dict[str, int]:
    return {run_name(each): each["robust"][0] for each in content["runs"]}


def test_other_seeds_are_added_in_order() -> None:
    found, removed = merged(table(run("b", 0, "x"), run("a", 1, "y")), table(run("a", 0, "z")))
    assert list(left(found)) == ["a-seed0", "a-seed1", "b-seed0"]
    assert removed == []
    assert len(from_table(TREES, found).runs) == 3


def test_what_is_measured_again_on_the_same_weights_takes_the_place_of_the_old() -> None:
    found, removed = merged(table(run("a", 0, "x", 5), run("b", 0, "y", 6)), table(run("a", 0, "x", 4)))
    assert left(found) == {"a-seed0": 4, "b-seed0": 6}
    assert removed == []


def test_other_weights_replace_a_run_and_are_reported() -> None:
    found, removed = merged(table(run("a", 0, "x", 5), run("b", 0, "y", 6)), table(run("a", 0, "other", 4)))
    assert left(found) == {"a-seed0": 4, "b-seed0": 6}
    assert found["runs"][0]["fingerprint"] == "other"
    assert removed == ["a-seed0"]


def test_a_run_that_was_trained_again_for_another_study_is_removed_from_this_one_too() -> None:
    weights = {"a-seed0": "other"}
    found, removed = merged(table(run("a", 0, "x"), run("b", 0, "y", 6)), None, **weights)
    assert (left(found), removed) == ({"b-seed0": 6}, ["a-seed0"])
    assert merged(table(run("a", 0, "x")), None, **weights) == (None, ["a-seed0"])


def test_a_study_of_which_the_folder_holds_nothing_is_the_same_object() -> None:
    old = table(run("a", 0, "x"))
    assert merged(old, None, **{"a-seed0": "x", "c-seed0": "z"})[0] is old
    assert merged(None, None) == (None, [])
    assert merged(None, old) == (old, [])


def test_merging_twice_changes_nothing() -> None:
    new = table(run("a", 1, "y", settings={"loss.alpha": 0.1}))
    once, _ = merged(table(run("a", 0, "x")), new)
    assert merged(once, new) == (once, [])


def test_runs_attacked_differently_are_refused_unless_no_old_run_is_kept() -> None:
    old, new = table(run("a", 0, "x")), table(run("a", 1, "y"), samples=8)
    with pytest.raises(RecordsError, match=r"samples 9 there, 8 here\); evaluate these alike, or remove trees\.json"):
        merged(old, new)
    found, _ = merged(old, table(run("a", 0, "x"), samples=8))
    assert found["about"]["samples"] == 8


# Settings: each run tells those in which it differs from any other, whichever step brought that one


def test_settings_that_begin_to_differ_are_written_for_earlier_runs_too() -> None:
    old = table(run("a", 0, "x"), run("a", 1, "y"))
    assert [each["settings"] for each in old["runs"]] == [{}, {}]  # the seed tells them apart already
    assert old["shared"] == BATCH
    found, _ = merged(old, table(run("b", 0, "z", settings={"train.batch_size": 64, "loss.alpha": 0.1})))
    assert [each["settings"] for each in found["runs"]] == [
        {"train.batch_size": 128},
        {"train.batch_size": 128},
        {"loss.alpha": 0.1, "train.batch_size": 64},
    ]
    assert found["shared"] == {}


def test_settings_that_no_longer_differ_are_written_once() -> None:
    old = table(run("a", 0, "x"), run("b", 0, "y", settings={"train.batch_size": 64}))
    found, _ = merged(old, table(run("b", 0, "new")))
    assert [each["settings"] for each in found["runs"]] == [{}, {}]
    assert found["shared"] == BATCH


# Files older than fingerprints


def without_fingerprints() -> dict[str, Any]:
    """Two runs as they were written once: settings that differ, and versions for all."""
    old = table(run("a", 0, "x", 5, {"lr": 1}), run("b", 0, "y", 6, {"lr": 2}))
    gone = ("fingerprint", "versions")
    runs = [{key: value for key, value in each.items() if key not in gone} for each in old["runs"]]
    return {**{key: value for key, value in old.items() if key != "shared"}, "runs": runs, "versions": {"torch": "0"}}


def test_runs_of_unknown_weights_stay_until_the_folder_holds_them() -> None:
    old = without_fingerprints()
    assert merged(old, None, **{"a-seed0": "new"})[0] is old  # old files do not record the weights
    found, removed = merged(old, table(run("b", 0, "new", 4, {"lr": 2}), run("c", 0, "z", 3, {"lr": 2})))
    assert (left(found), removed) == ({"a-seed0": 5, "b-seed0": 4, "c-seed0": 3}, [])
    assert [each["versions"] for each in found["runs"]] == [{"torch": "0"}, {"torch": "1"}, {"torch": "1"}]
    assert [each["settings"] for each in found["runs"]] == [{"lr": 1}, {"lr": 2}, {"lr": 2}]
    assert found["shared"] == BATCH
    first, second, _ = whole_runs(found)
    assert first["settings"] == {"lr": 1}  # its batch size was not recorded
    assert second["settings"] == {**BATCH, "lr": 2}


# Collecting, and reading back


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "variants").mkdir()
    path = tmp_path / "variants" / "emc.json"
    path.write_text('{"format": "maxmahal-variants-1", "runs": [{"arm": "x"}], "about": {}}')
    with pytest.raises(RecordsError, match=r"emc\.json is damaged"):
        read_results(tmp_path, STUDIES)
    path.write_text('{"format": "other"}')
    with pytest.raises(RecordsError, match="collect it again"):
        read_results(tmp_path, STUDIES)


SOURCE = "maxmahal.data.digits_tree:by_shape"
SMALL = [f"data.source={SOURCE}", "train.epochs=1", "data.limit=150", "data.validation=50", "data.test_limit=40"]
NAMES = {"variants-mmc-seed0": "digits-mmc", "variants-emc-0.1-seed0": "digits-mmc-hierarchical", "other": "digits-mmc"}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three tiny models, one of them with hierarchical centers and one of no study, and a suite."""
    folder = tmp_path_factory.mktemp("out")
    for name, preset in NAMES.items():
        train_model(load_settings(own("preset", preset), SMALL), folder / "models" / name)
    stages = "".join(
        f'[[stage]]\nname = "{name}"\ntitle = "P"\nattack = "pgd"\nscope = "{scope}"\nsteps = 2\n'
        for name, scope in (("p", "all"), ("q", "survivors"))
    )
    (folder / "variants.toml").write_text(f'version = 1\nabout = "x"\nepsilon = "8/255"\n{stages}')
    return folder


def attack(out: Path, epsilon: str) -> list[Evaluation]:
    records = out / f"records-{epsilon.replace('/', '-')}"
    models = {name: out / "models" / name for name in NAMES}
    return evaluate_models(models, suite=out / "variants.toml", out=records, data=SOURCE, epsilon=epsilon)


def test_runs_are_collected_with_the_settings_that_differ(out: Path) -> None:
    found = attack(out, "8/255")
    content = collect_study(EMC, found, out / "models")
    assert content is not None
    results = from_table(EMC, json.loads(json.dumps(content)))
    assert [(run.arm, run.seed) for run in results.runs] == [("variants-emc-0.1", 0), ("variants-mmc", 0)]
    assert [run.settings["centers.name"] for run in results.runs] == ["hierarchical", "max-mahalanobis"]
    assert (results.shared["train.epochs"], "train.epochs" in results.runs[0].settings) == (1, False)
    assert list(results.runs[0].stages) == ["p"]  # the other attack ran on survivors alone
    assert results.runs[1].value("clean") == 100 * found[0].stage("clean").columns.right_share.mean()
    assert results.runs[1].value("worst") <= results.runs[1].value("clean")
    assert (len(results.runs[0].test_accuracy), results.runs[0].mistakes, results.runs[0].centers) == (1, {}, {})
    assert collect_study(EMC, [], out / "models") is None


def test_a_study_takes_evaluations_of_one_epsilon(out: Path) -> None:
    wide, narrow = attack(out, "8/255"), attack(out, "1/255")
    with pytest.raises(RecordsError, match="not all attacked alike"):
        collect_study(EMC, [wide[0], narrow[0]], out / "models")
    with pytest.raises(RecordsError, match="keep one evaluation per run"):
        collect_study(EMC, [wide[0], replace(wide[0], seed=1)], out / "models")
    study = replace(EMC, epsilon="1/255")
    assert collect_study(study, wide, out / "models") is None
    content = collect_study(study, [*wide, *narrow], out / "models")
    assert content is not None
    assert (content["about"]["epsilon"], len(content["runs"])) == ("1/255", 2)


def test_severity_validation_and_geometry_are_collected(out: Path) -> None:
    superclasses = load_dataset(SOURCE, "test").superclasses
    assert superclasses is not None
    study, found = replace(EMC, superclasses=superclasses), attack(out, "8/255")
    content = collect_study(study, found, out / "models")
    assert content is not None
    tree, plain = from_table(study, json.loads(json.dumps(content))).runs
    severity = measure_severity(found[0], superclasses)
    assert plain.mistakes == severity
    assert plain.value("superclass") == 100 * severity["clean"].superclass_accuracy.value
    assert plain.rate("near") == severity["clean"].within
    assert plain.rate("worst-near") == severity["worst"].within
    last = json.loads((out / "models" / "variants-mmc-seed0" / "metrics.jsonl").read_text().splitlines()[-1])
    assert plain.validation == pytest.approx(last["validation_accuracy"], abs=1e-4)
    # norms 9.578 and 2.873: two of three siblings are 2.873·√3 apart, two of four 2.873·√(8/3)
    assert tree.centers["nearest"] == pytest.approx(2.873 * math.sqrt(8 / 3), abs=2e-3)
    assert tree.centers["across"] == pytest.approx(math.sqrt(3 * 9.578**2 + 2 * 2.873**2), abs=2e-3)
    assert (tree.centers["shortest"], tree.centers["longest"]) == pytest.approx((10, 10), abs=2e-3)
    assert plain.centers["nearest"] == plain.centers["across"] == pytest.approx(10 * math.sqrt(20 / 9), abs=2e-3)
