"""What the published makes of several evaluations of one model: the worst case of all, and all images where known."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_summaries import published, run, summary

from maxmahal.records.schema import RecordsError
from maxmahal.records.statistics import Rate
from paper.pages import results as reading
from paper.pages.results import Published, read_published
from paper.pages.tables import missing_list
from paper.summaries import RunSummary, Summary

MMC, SHORT = "cifar10-mmc", "cifar10-at-mmc-short"


def test_the_worst_case_is_of_each_image_over_both_suites() -> None:
    """600 of 2,000 are robust under the one, 500 under the other, and only 100 under both."""
    ids = np.arange(2000)
    first = summary(MMC, "autoattack", robust=30, stands=ids < 600)
    second = summary(MMC, "strict", robust=25, stands=(ids >= 500) & (ids < 1000))
    found = published(first, second).strongest(MMC)
    assert found is not None
    assert (found.rate, found.limited, found.note) == (Rate(100.0, 2000), False, "")


@pytest.mark.parametrize(
    "changes", [{"data_fingerprint": "others"}, {"model_fingerprint": "others"}, {"samples": 1000}]
)
def test_suites_of_other_images_are_compared_and_said_to_be(changes: dict[str, Any]) -> None:
    found = published(summary(MMC, "autoattack", robust=30), summary(MMC, "strict", robust=20, **changes)).strongest(
        MMC
    )
    assert found is not None
    assert found.value == pytest.approx(20)
    assert found.full.endswith("(the lower of two suites, which did not see the same images)")
    assert "lower" not in found.cell


@pytest.mark.parametrize("suites", [("autoattack", "strict"), ("strict", "autoattack")])
def test_if_every_image_is_broken_the_suite_that_saw_more_images_counts(suites: tuple[str, str]) -> None:
    few, many = suites
    found = published(summary(MMC, few, robust=0, samples=1000, limited=True), summary(MMC, many, robust=0)).strongest(
        MMC
    )
    assert found is not None
    assert (found.rate, found.limited, found.note) == (Rate(0.0, 2000), False, "")


def test_of_several_sizes_the_largest_that_both_saw_counts() -> None:
    few = [summary(MMC, suite, robust=50, samples=1000, limited=True) for suite in ("autoattack", "strict")]
    found = published(*few, summary(MMC, "strict", robust=60)).strongest(MMC)
    assert found is not None
    assert (found.samples, found.limited) == (1000, True)
    more = summary(MMC, "strict", robust=40)
    lower = published(*few, more).strongest(MMC)
    assert lower is not None
    assert (lower.samples, lower.value) == (2000, pytest.approx(40)), "no image forgives another"
    alone = published(more).strongest(MMC)
    assert alone is not None
    assert alone.value == pytest.approx(40)
    assert published().strongest(MMC) is None


def attacked(name: str, epoch: int = 25) -> Summary:
    """On the first thousand images, of which 62.4 % are right."""
    model = {"settings": {"train": {"epochs": 25}}, "epoch": epoch, "table": ""}
    return replace(summary(name, "autoattack", clean=62.4, samples=1000, limited=True), model=model)


def whole(name: str) -> Summary:
    """The same checkpoint on every image that its suite takes."""
    return replace(summary(name, "strict", clean=63), model=attacked(name).model)


def with_settings(name: str, suite: str, settings: dict[str, float]) -> Summary:
    return replace(summary(name, suite), model={"settings": settings})


def trained(name: str = SHORT, **changes: Any) -> RunSummary:
    scores = {"last": {"epoch": 25, "test_accuracy": 0.6308}, "best": {"epoch": 20, "test_accuracy": 0.6001}}
    return run(name, [40.0], **{"result": scores, **changes})


@pytest.mark.parametrize(
    ("things", "count", "images"),
    [
        ([attacked(SHORT), trained()], 6308, 10_000),
        ([attacked(SHORT)], 624, 1000),
        ([attacked(SHORT, epoch=24), trained()], 624, 1000),  # of another epoch's checkpoint
        ([attacked(SHORT), trained(finished=False)], 624, 1000),
        ([attacked(SHORT), trained(weights={"last": f"weights of {SHORT}", "best": "others"})], 6308, 10_000),
        ([attacked(SHORT), trained(weights={"last": "others"})], 624, 1000),  # of another training
        ([attacked(SHORT), trained(weights={"half": f"weights of {SHORT}"})], 624, 1000),  # counted before rounding
        ([attacked(SHORT), trained(result={"last": {"epoch": 25}})], 624, 1000),
        ([attacked(SHORT), trained(), whole(SHORT)], 1260, 2000),
    ],
)
def test_clean_accuracy_is_of_all_images_where_they_are_known(
    things: list[Summary | RunSummary], count: float, images: int
) -> None:
    found = published(*things).clean(SHORT)
    assert found is not None
    assert found.rate == Rate(float(count), images)
    assert found.limited == (images == 1000)


@pytest.mark.parametrize(
    ("recorded", "trained_with", "wanted"),
    [
        ([{"lr": 0.1}], {"lr": 0.2}, {"lr": 0.1}),  # the training was run again since, with another rate
        ([{}, {"lr": 0.1}], {"lr": 0.2}, {"lr": 0.1}),
        ([{}], {"lr": 0.2}, {"lr": 0.2}),
        ([], {"lr": 0.2}, {"lr": 0.2}),
        ([{"lr": 0.1}], None, {"lr": 0.1}),
        ([{}], None, {}),
    ],
)
def test_settings_are_those_of_the_weights_that_were_evaluated(
    recorded: list[dict[str, float]], trained_with: dict[str, float] | None, wanted: dict[str, float]
) -> None:
    suites = ("strict", "autoattack")
    seen = [with_settings(MMC, suite, each) for suite, each in zip(suites, recorded, strict=False)]
    runs = [] if trained_with is None else [run(MMC, [10.0], settings=trained_with)]
    others = [with_settings("other", "strict", {"lr": 9.0}), run("another", [10.0])]
    assert published(*others, *seen, *runs).settings(MMC) == wanted


def test_evaluations_of_other_weights_than_the_trainings_are_named() -> None:
    runs = [
        run(MMC, [10.0], weights={"last": f"weights of {MMC}"}),
        trained(weights={"best": "others"}),
        run("old", [9.0]),
    ]
    things = [summary(MMC, "strict"), attacked(SHORT), summary("old", "strict"), *runs]
    recorded = "evaluated with other weights than those of the published training"
    assert not any(recorded in line for line in missing_list(published(*things)))
    things += [summary(f"{SHORT}-best", suite) for suite in ("strict", "autoattack")]
    assert f"`{SHORT}-best`: {recorded}" in missing_list(published(*things))


def test_the_best_checkpoint_has_its_own_count() -> None:
    found = published(attacked(f"{SHORT}-best", epoch=20), trained()).clean(f"{SHORT}-best")
    assert found is not None
    assert found.rate == Rate(6001.0, 10_000)


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({}, 6308.0),
        ({"finished": False}, None),
        ({"settings": {}}, None),  # the number of test images is not recorded
        ({"settings": {"data": {"source": "cifar10", "test_limit": 1000}}}, None),
        ({"result": {"last": {"epoch": 25}}}, None),
    ],
)
def test_clean_accuracy_of_a_model_without_evaluations_is_that_of_its_training(
    changes: dict[str, Any], count: float | None
) -> None:
    alone = published(trained(**{"settings": {"data": {"source": "cifar10"}}, **changes}))
    found = alone.clean(SHORT)
    assert (None if found is None else found.rate) == (None if count is None else Rate(count, 10_000))
    assert found is None or not found.limited
    assert alone.robust(SHORT, "strict") is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_fingerprint": "other"}, "of different weights"),
        ({"data": "digits"}, "of different data"),
        ({"data_fingerprint": "other"}, "of different images"),
    ],
)
def test_two_models_or_data_sets_of_one_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], said: str
) -> None:
    found: dict[str, Summary] = {"a--strict.json": summary("a", "strict"), "b--strict.json": summary("b", "strict")}
    monkeypatch.setattr(reading, "read_summary", lambda path: found[path.name])
    (tmp_path / "evaluations").mkdir()
    for name in (*found, "a--autoattack.json"):
        (tmp_path / "evaluations" / name).touch()
    found["a--autoattack.json"] = summary("a", "autoattack")
    assert len(read_published(tmp_path).evaluations) == 3
    found["a--autoattack.json"] = summary("a", "autoattack", **changes)
    with pytest.raises(RecordsError, match=said) as raised:
        read_published(tmp_path)
    assert "a--autoattack.json and a--strict.json" in str(raised.value)
    assert "remove the older one" in str(raised.value)


SUITES = ("autoattack", "strict", "paper-table1")
AT = "cifar100-at-hm"
SAME = {"last": f"weights of {AT}", "best": f"weights of {AT}"}


@pytest.mark.parametrize(
    ("name", "weights", "known", "bests"),
    [
        (AT, SAME, [], {"autoattack": [30, 31], "strict": [32]}),
        (AT, SAME, [("autoattack", 1000, 29)], {"autoattack": [29, 30], "strict": [32]}),
        (AT, {**SAME, "best": "other"}, [], {}),
        (AT, {"last": SAME["last"]}, [], {}),
        (AT, {"last": "other", "best": "other"}, [], {}),
        (AT, {}, [], {}),
        ("trees-at-mmc-seed1", dict.fromkeys(SAME, "weights of trees-at-mmc-seed1"), [], {}),
    ],
)
def test_a_best_checkpoint_with_the_last_ones_weights_has_its_worst_cases(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    weights: dict[str, str],
    known: list[tuple[str, int, float]],
    bests: dict[str, list[float]],
) -> None:
    things = [summary(name, "autoattack", robust=30), summary(name, "autoattack", robust=31, samples=1000)]
    things += [summary(name, "strict", robust=32), summary(name, "paper-table1", robust=33)]
    changes = {"model_fingerprint": weights.get("best", "")}
    things += [summary(f"{name}-best", suite, robust, samples=count, **changes) for suite, count, robust in known]
    read = read_made_up(tmp_path, monkeypatch, things, run(name, [50.0], weights=weights))
    found = {suite: [100 * each.robust.value for each in read.of(f"{name}-best", suite)] for suite in SUITES}
    assert {suite: pytest.approx(sorted(shares)) for suite, shares in found.items() if shares} == bests
    assert len(read.of(name, "autoattack")) == 2


def test_a_best_checkpoint_that_was_evaluated_with_other_weights_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    things = [summary(AT, "strict", robust=30), summary(AT, "autoattack", robust=30), summary(f"{AT}-best", "strict")]
    read = read_made_up(tmp_path, monkeypatch, things, run(AT, [50.0], weights=SAME))
    assert len(read.evaluations) == 3


def read_made_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, things: list[Summary], training: RunSummary
) -> Published:
    """As from files of these summaries."""
    found = {f"{place}.json": each for place, each in enumerate(things)}
    monkeypatch.setattr(reading, "read_summary", lambda path: found[path.name])
    monkeypatch.setattr(reading, "read_run", lambda path: training)
    for path in (*(tmp_path / "evaluations" / name for name in found), tmp_path / "runs" / "a.json"):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    return read_published(tmp_path)


@pytest.mark.parametrize("end", ["-short", "-short-seed1", "-seed2", "-best"])
def test_a_short_budget_a_seed_or_a_checkpoint_is_no_row_of_the_papers(end: str) -> None:
    """Though its settings name the row, having come from the long one's."""
    name = f"cifar10-at-sce{end}"
    recorded = {"settings": {"train": {"epochs": 25}}, "epoch": 25, "table": "Table 1, AT un 10 (SCE)"}
    things = published(
        replace(summary(name, "autoattack"), model=recorded),
        run(name, [30.0], settings={"table": "Table 1, AT un 10 (SCE)", "train": {}}),
    )
    assert things.title(name) == f"at-sce{end}"
    assert things.paper(name, "clean") == []
    own = published(replace(summary("cifar10-at-un-sce", "autoattack"), model=recorded))
    assert own.title("cifar10-at-un-sce") == "AT un 10 (SCE)"


@pytest.mark.parametrize(
    ("changes", "own", "smaller"),
    [
        ({}, True, False),
        ({"epsilon": "4/255", "radius": 4 / 255}, False, True),
        ({"epsilon": "16/255", "radius": 16 / 255}, False, False),
        ({"norm": "L2", "epsilon": "4/255", "radius": 4 / 255}, False, False),
        ({"radius": np.nextafter(8 / 255, 0.0).item()}, True, False),
        ({"suite": "mine", "epsilon": "4/255", "radius": 4 / 255}, True, False),
    ],
)
def test_the_threat_of_a_suite_and_smaller_epsilons(changes: dict[str, Any], own: bool, smaller: bool) -> None:
    each = replace(summary(MMC, "strict"), **changes)
    things = published(each)
    assert (things.find(MMC, each.suite) is not None, bool(things.smaller_epsilons("cifar10"))) == (own, smaller)
