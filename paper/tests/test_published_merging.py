"""A study that is measured in steps: what stays, what is added, what is replaced, and what is refused."""

from typing import Any

import pytest

from maxmahal.records.schema import RecordsError
from paper.pages.trees_study import TREES
from paper.pages.variants.merging import assemble, merge_tables, run_name, whole_runs
from paper.pages.variants.results import from_table

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


def test_other_weights_replace_a_run_and_are_told() -> None:
    found, removed = merged(table(run("a", 0, "x", 5), run("b", 0, "y", 6)), table(run("a", 0, "other", 4)))
    assert left(found) == {"a-seed0": 4, "b-seed0": 6}
    assert found["runs"][0]["fingerprint"] == "other"
    assert removed == ["a-seed0"]


def test_a_run_that_was_trained_anew_for_another_study_goes_from_this_one_too() -> None:
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


def test_runs_attacked_otherwise_are_refused_unless_none_of_the_old_stays() -> None:
    old, new = table(run("a", 0, "x")), table(run("a", 1, "y"), samples=8)
    with pytest.raises(RecordsError, match=r"samples 9 there, 8 here\); evaluate these alike, or remove trees\.json"):
        merged(old, new)
    found, _ = merged(old, table(run("a", 0, "x"), samples=8))
    assert found["about"]["samples"] == 8


# Settings: each run tells those in which it differs from any other, whichever step brought that one


def test_settings_that_come_to_differ_are_told_of_the_earlier_runs_too() -> None:
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


def test_settings_that_differ_no_more_are_told_once() -> None:
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
    assert merged(old, None, **{"a-seed0": "new"})[0] is old  # nobody can say that it is another one
    found, removed = merged(old, table(run("b", 0, "new", 4, {"lr": 2}), run("c", 0, "z", 3, {"lr": 2})))
    assert (left(found), removed) == ({"a-seed0": 5, "b-seed0": 4, "c-seed0": 3}, [])
    assert [each["versions"] for each in found["runs"]] == [{"torch": "0"}, {"torch": "1"}, {"torch": "1"}]
    assert [each["settings"] for each in found["runs"]] == [{"lr": 1}, {"lr": 2}, {"lr": 2}]
    assert found["shared"] == BATCH
    first, second, _ = whole_runs(found)
    assert first["settings"] == {"lr": 1}  # it never told its batch size
    assert second["settings"] == {**BATCH, "lr": 2}
