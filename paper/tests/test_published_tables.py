"""Published tables, pages and figures: the paper beside ours, and missing cells said to be missing."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from made_up_summaries import run, shelf, stage, summary

from maxmahal.evaluate import RecordsError
from maxmahal.evaluate.suite import load_suite
from paper.pages import ZOO, Shelf, card, figures, index, read_shelf, reading, readme_block, results_page
from paper.pages.apart import apart_note
from paper.pages.edges import edge_of
from paper.pages.missing import missing_list
from paper.pages.models import PGD_8, title_of
from paper.pages.steps import StepPairs, Steps
from paper.pages.tables import (
    budgets_table,
    depth_table,
    markdown,
    spsa_table,
    threats_table,
    white_box_table,
)
from paper.pages.trainings import cost_table, tuning_table
from paper.summaries import RunSummary, Summary

SCE, MMC = "cifar10-sce", "cifar10-mmc"
SHARES = {"pgd10-tar-8": 47.0, "pgd10-un-8": 35.5}


def cells(table: str, row: str) -> list[str]:
    """The cells of the row that begins with a word."""
    (line,) = [line for line in table.splitlines() if line.startswith(f"| {row} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_paper_stands_beside_ours_and_missing_cells_say_so() -> None:
    table = white_box_table(shelf(summary(MMC, "paper-table1", clean=91, stages=SHARES)))
    assert cells(table, "MMC-10")[1:4] == ["92.7 / 91.0", "48.7 / 47.0", "36.0 / 35.5"]
    assert cells(table, "MMC-10")[4:] == [
        "26.6 / not run",
        "24.8 / not run",
        "36.1 / not run",
        "25.2 / not run",
        "13.4 / not run",
        "17.5 / not run",
        "not run",
        "not run",
    ]
    assert cells(table, "SCE")[1:3] == ["92.9 / not run", "≤ 1 / not run"]
    assert len(table.splitlines()) == 12


def test_worst_cases_get_columns_of_their_own() -> None:
    both = shelf(summary(MMC, "strict", robust=3), summary(MMC, "autoattack", robust=0))
    assert cells(white_box_table(both), "MMC-10")[-2:] == ["**3.0**", "**≤ 0.18**"]


def test_a_stage_that_was_skipped_was_not_run() -> None:
    skipped = stage("pgd10-un-8", 0, skipped="It has no gradient.", accuracy=None)
    table = white_box_table(shelf(summary(MMC, "paper-table1", more=(skipped,))))
    assert cells(table, "MMC-10")[3] == "36.0 / not run"


def test_a_look_at_a_few_images_is_marked_and_gives_way_to_all_of_them() -> None:
    few = summary(MMC, "strict", robust=20, samples=100, limited=True)
    assert cells(white_box_table(shelf(few)), "MMC-10")[-2] == "**20.0 (first 100)**"
    both = shelf(few, summary(MMC, "strict", robust=10))
    assert cells(white_box_table(both), "MMC-10")[-2] == "**10.0**"


def test_distances_are_distances() -> None:
    found = summary(MMC, "paper-table2", stages={"cw-un": 0.165, "rotation": 86.0})
    none = summary(SCE, "paper-table2", more=(stage("cw-un", 0.0, distortion=None),))
    table = threats_table(shelf(found, none))
    assert cells(table, "MMC-10")[2] == "0.17 / 0.17"
    assert cells(table, "MMC-10")[-1] == "87.2 / 86.0"
    assert cells(table, "SCE")[2] == "0.07 / none broken"


def test_batches_of_spsa_are_rows() -> None:
    sizes = summary(MMC, "spsa-sizes", stages={"spsa-un-8": 50.0, "spsa-tar-8-8192": 42.0})
    other = summary(MMC, "paper-table2", stages={"spsa-un-8": 51.0, "spsa-tar-8": 61.0})
    table = spsa_table(shelf(other, sizes))
    assert cells(table, "128") == ["128", "57.0 / 50.0", "69.0 / 61.0"]
    assert cells(table, "8192") == ["8192", "37.0 / not run", "49.0 / 42.0"]


def test_depth_takes_the_fifth_tables_numbers() -> None:
    table = depth_table(shelf(summary(SCE, "paper-table1", clean=92)))
    assert cells(table, "SCE (Res.32)")[1] == "93.6 / 92.0"
    assert cells(table, "MMC (Res.110)")[1] == "93.6 / not run"


def test_budgets_name_the_epoch_of_the_checkpoint() -> None:
    early = summary("x-best", "strict")
    early.model["epoch"] = 120
    table = budgets_table(shelf(summary("x", "strict", robust=41), early), ["x", "x-best", "y"])
    assert cells(table, "x")[1:] == [
        "200",
        "80.0 % [78.2, 81.7]",
        "not run",
        "41.0 % [38.8, 43.2]",
        "not run",
    ]
    assert cells(table, "x-best")[1] == "120 of 200"
    assert cells(table, "y")[2:] == ["not run"] * 4


def test_another_ball_is_in_no_column_and_said_to_be_elsewhere() -> None:
    small = summary(MMC, "strict", robust=60, epsilon="4/255", radius=4 / 255)
    large = summary(MMC, "strict", robust=60, epsilon="16/255", radius=16 / 255)
    round_one = summary(SCE, "autoattack", robust=60, norm="L2", epsilon="8/255", radius=8 / 255)
    both = shelf(small, round_one, large)
    assert cells(white_box_table(both), "MMC-10")[-2] == "not run"
    assert cells(white_box_table(both), "SCE")[-1] == "not run"
    assert both.pair(MMC, MMC, "strict") is None
    said = missing_list(both)
    assert f"- `{MMC}`: strict was run at Linf 16/255, which none of these tables is about" in said
    assert f"- `{SCE}`: autoattack was run at L2 8/255, which none of these tables is about" in said
    assert "4/255" not in said, "smaller epsilons have a table of their own"
    elsewhere = missing_list(shelf(replace(small, data="cifar100")))
    assert "strict was run at Linf 4/255" in elsewhere, "which there is on CIFAR-10 alone"
    assert cells(white_box_table(shelf(small, summary(MMC, "strict", robust=40))), "MMC-10")[-2] == "**40.0**"
    assert "60.0" not in card(both, MMC)
    moved = (stage("t", 20.0, kind="transfer", source=SCE, title=f"PGD-10 crafted on {SCE}"),)
    other = summary(MMC, "paper-figure4", more=moved, epsilon="4/256", radius=4 / 256)
    assert figures(shelf(other)) == {}


def test_a_suite_of_ones_own_has_any_ball() -> None:
    mine = shelf(summary(MMC, "mine", robust=40, epsilon="4/255", radius=4 / 255))
    assert mine.find(MMC, "mine") is not None


def test_spsa_on_a_few_images_does_not_stand_among_the_many() -> None:
    sizes = summary(MMC, "spsa-sizes", stages={"spsa-un-8": 50.0}, samples=100)
    both = shelf(sizes, summary(SCE, "paper-table2", stages={"noise": 50.0}))
    assert cells(threats_table(both), "MMC-10")[4] == "56.9 / not run"
    assert cells(white_box_table(both), "MMC-10")[1] == "92.7 / not run"


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
    assert len(read_shelf(tmp_path).evaluations) == 3
    found["a--autoattack.json"] = summary("a", "autoattack", **changes)
    with pytest.raises(RecordsError, match=said) as caught:
        read_shelf(tmp_path)
    assert "a--autoattack.json and a--strict.json" in str(caught.value)
    assert "remove the older one" in str(caught.value)


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


def read_made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, things: list[Summary], training: RunSummary) -> Shelf:
    """As from files of these summaries."""
    found = {f"{place}.json": each for place, each in enumerate(things)}
    monkeypatch.setattr(reading, "read_summary", lambda path: found[path.name])
    monkeypatch.setattr(reading, "read_run", lambda path: training)
    for path in (*(tmp_path / "evaluations" / name for name in found), tmp_path / "runs" / "a.json"):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    return read_shelf(tmp_path)


def test_numbers_far_from_the_papers_are_named_below_the_table() -> None:
    far = summary("cifar10-mmc", "paper-table1", stages={"pgd10-un-8": 25.9, "pgd50-un-8": 15.0, "pgd10-tar-8": 60.0})
    bound = summary("cifar10-sce", "paper-table1", stages={"pgd10-tar-8": 0.0, "pgd50-tar-8": 11.5})
    told = apart_note(shelf(far, bound), ("cifar10-sce", "cifar10-mmc"), PGD_8, "Table 1")
    assert "SCE (PGD-50 tar 8 by 10) and MMC-10 (PGD-10 tar 8 by 11, PGD-10 un 8 by 10)." in told
    assert told in results_page(shelf(far, bound), [])
    near = summary("cifar10-mmc", "paper-table1", stages={"pgd10-un-8": 26.1, "pgd50-un-8": 34.7})
    assert apart_note(shelf(near), ("cifar10-sce", "cifar10-mmc"), PGD_8, "Table 1") == ""


def test_the_steps_of_training_are_read_from_their_benchmark(tmp_path: Path) -> None:
    ratios = {"mmc_over_sce": 0.993, "low_quartile": 0.97, "high_quartile": 1.03}
    rows = [{"backbone": name, "batch_size": 128, "pairs": 200, **ratios} for name in ("resnet110", "resnet32")]
    content = {"device": "NVIDIA H200", "command": "python it.py", "rows": rows}
    assert read_shelf(tmp_path).steps is None
    assert read_shelf(tmp_path, tmp_path).steps is None
    (tmp_path / reading.STEPS).write_text(json.dumps(content))
    assert read_shelf(tmp_path, tmp_path).steps == Steps(
        "NVIDIA H200", "python it.py", (StepPairs(128, 200, 0.993, 0.97, 1.03),)
    )
    for damaged in ("{", "[]", *(json.dumps({**content, **other}) for other in ({"rows": rows[:1]}, {"rows": [{}]}))):
        (tmp_path / reading.STEPS).write_text(damaged)
        with pytest.raises(RecordsError, match="is not what the benchmark of training steps writes"):
            read_shelf(tmp_path, tmp_path)


def test_the_cost_and_the_tuning_are_told_apart() -> None:
    trial = run("tune-sce-lr01", [20.0, 10.0])
    trial.epochs[0]["validation_pgd10"] = 0.41
    both = shelf(run(SCE, [20.0, 8.5], 30), trial)
    assert cells(cost_table(both), SCE) == [SCE, "2", "50", "NVIDIA H200", "30.00 s", "1 min 00 s", "8.5"]
    assert "tune-" not in cost_table(both)
    assert "shared a GPU" not in cost_table(both)
    beside = shelf(run(SCE, [20.0], gpu="", sharing=4))
    assert cells(cost_table(beside), SCE)[3] == "cuda:0, shared by 4"
    assert "Runs that shared a GPU slowed each other down" in cost_table(beside)
    assert cells(tuning_table(both), "tune-sce-lr01")[-2] == "41.0"
    assert tuning_table(shelf()) == ""
    assert "No finished training" in cost_table(shelf())


def test_only_finished_trainings_have_a_cost_and_the_others_are_named() -> None:
    table = cost_table(shelf(run(SCE, [20.0]), run(MMC, [20.0, 10.0], finished=False)))
    assert f"| {MMC} |" not in table
    assert table.endswith(f"Left out, as not finished: `{MMC}` (2 epochs).")
    assert "Left out" not in cost_table(shelf(run(SCE, [20.0])))


def trial(
    name: str, clean: float, pgd: float | None = None, batch: int = 256, lr: float = 0.1, **changes: Any
) -> RunSummary:
    found = run(f"tune-{name}", [20.0], **changes)
    found.epochs[0].update({"validation_accuracy": clean} | ({} if pgd is None else {"validation_pgd10": pgd}))
    loss = {"loss": {"name": name.partition("-")[0]}, "train": {"epochs": 1, "batch_size": batch, "lr": lr}}
    return replace(found, settings={**found.settings, **loss})


def test_the_chosen_trials_are_marked() -> None:
    trials = [
        trial("mmc-a", 0.359, 0.2685),
        trial("mmc-b", 0.363, 0.2685),  # ties by validation accuracy
        trial("mmc-c", 0.5, 0.2675),
        trial("mmc-d", 0.9, 0.9, finished=False),
        trial("sce-a", 0.3, 0.3),
        trial("mmc-e", 0.86, batch=128),  # without attack, by batch size
        trial("mmc-f", 0.80, batch=512),
        trial("mmc-g", 0.75, batch=512),
        trial("mmc-h", 0.99, batch=512, finished=False),
    ]
    table = tuning_table(shelf(*trials))
    best = {each.name for each in trials if cells(table, each.name)[-1] == "best"}
    assert best == {"tune-mmc-b", "tune-sce-a", "tune-mmc-e", "tune-mmc-f"}
    assert "ties by validation accuracy" in table
    assert "learning rate tried" not in table


def test_trials_that_a_training_took_over_are_told_from_the_best_of_other_batches() -> None:
    trials = [
        trial("mmc-a", 0.80, batch=128, lr=0.02),
        trial("mmc-b", 0.86, batch=128, lr=0.05),
        trial("mmc-c", 0.85, batch=128, lr=0.1),
        trial("mmc-d", 0.88, batch=50, lr=0.01),
        trial("sce-a", 0.85, batch=128, lr=0.05),
        trial("sce-b", 0.86, batch=128, lr=0.1),
    ]
    trained = [replace(trials[place], name=name) for place, name in ((1, MMC), (5, SCE))]
    table = tuning_table(shelf(*trials, *trained))
    assert [cells(table, each.name)[-1] for each in trials] == ["", "used", "", "best", "", "used"]
    assert "At the highest learning rate tried: tune-sce-b (0.1 of 0.05 to 0.1); higher ones" in table
    assert "At the lowest" not in table
    lowest = trial("mmc-a", 0.9, batch=128, lr=0.02)
    low = tuning_table(shelf(lowest, trials[1], replace(lowest, name=MMC)))
    assert "At the lowest learning rate tried: tune-mmc-a (0.02 of 0.02 to 0.05); lower ones" in low
    assert "At the highest" not in low


@pytest.mark.parametrize(
    ("value", "tried", "edge"),
    [
        (0.2, [0.1, 0.2], "highest"),
        (0.1, [0.2, 0.1], "lowest"),
        (0.2, [0.1, 0.2, 0.4], None),
        (0.3, [0.1, 0.2], "highest"),  # beyond what was tried
        (0.2, [0.2, 0.2], None),  # twice the same is no choice
        (0.2, [], None),
    ],
)
def test_a_choice_at_an_end_of_what_was_tried(value: float, tried: list[float], edge: str | None) -> None:
    assert edge_of(value, tried) == edge


def test_hierarchical_centers_have_trials_of_their_own_and_a_tie_that_went_the_other_way_is_told() -> None:
    def of_a_tree(found: RunSummary) -> RunSummary:
        return replace(found, settings={**found.settings, "centers": {"name": "hierarchical"}})

    trials = [
        trial("mmc-a", 0.20, 0.1280, lr=0.2),
        of_a_tree(trial("mmc-b", 0.1965, 0.1340, lr=0.1)),
        of_a_tree(trial("mmc-c", 0.1985, 0.1340, lr=0.2)),
    ]
    trained = [replace(trials[0], name=MMC), replace(trials[1], name="cifar10-hm")]
    table = tuning_table(shelf(*trials, *trained))
    assert [cells(table, each.name)[-1] for each in trials] == ["used", "used", "best"]
    assert cells(table, "tune-mmc-b")[3] == "mmc, hierarchical"
    assert "Used without being the best: tune-mmc-b (13.40 and 19.65 against 13.40 and 19.85 of tune-mmc-c)." in table
    assert "Used without" not in tuning_table(shelf(*trials, trained[0]))


def test_a_weight_decay_that_was_not_tuned_is_told() -> None:
    told = "One weight decay alone was tried without attack with resnet32 on CIFAR-10 (0.0002)."

    def tried(name: str, decay: float) -> RunSummary:
        found = trial(name, 0.8, batch=128)
        return replace(found, settings={**found.settings, "train": {**found.settings["train"], "weight_decay": decay}})

    assert told in tuning_table(shelf(tried("a", 2e-4), tried("b", 2e-4)))
    assert "weight decay alone" not in tuning_table(shelf(tried("a", 2e-4), tried("b", 5e-4)))


def test_what_is_missing_is_listed_once() -> None:
    told = missing_list(shelf(summary(MMC, "paper-table1", stages=SHARES)))
    (line,) = [line for line in told.splitlines() if line.startswith(f"- `{MMC}`")]
    assert "PGD-50 un 8" in line
    assert "PGD-10 un 8" not in line
    assert line.count("PGD-50 un 8,") == 1
    (never,) = [line for line in told.splitlines() if line.startswith("- nothing was run on ")]
    assert f"`{SCE}`" in never
    assert f"`{MMC}`," not in never
    assert "none of their models is among these results" in told


def test_what_was_trained_and_not_attacked_is_told_from_what_was_not_run() -> None:
    runs = [run(name, [10.0]) for name in (SCE, "cifar10-lgm")]
    told = missing_list(shelf(*runs, run("cifar10-at-tar-sce", [40.0], finished=False))).splitlines()
    assert f"- trained, not attacked yet: `{SCE}`, `cifar10-lgm`" in told
    assert "- in training, or broken off, and not attacked: `cifar10-at-tar-sce`" in told
    (never,) = [line for line in told if line.startswith("- nothing was run on ")]
    assert f"`{MMC}`" in never
    assert not any(f"`{name}`" in never for name in (SCE, "cifar10-lgm", "cifar10-at-tar-sce"))


@pytest.mark.parametrize(
    ("table", "grid"),
    [
        (white_box_table, "table1"),
        (threats_table, "table2"),
        (spsa_table, "table3"),
        (depth_table, "table5-cifar10"),
    ],
)
def test_a_table_without_a_number_is_one_sentence(table: Callable[[Shelf], str], grid: str) -> None:
    told = table(shelf(summary("mine", "strict")))
    assert told == f"No cell of this table has been measured yet; `maxmahal reproduce {grid}` fills it."


def test_one_cell_makes_a_table() -> None:
    assert (
        cells(spsa_table(shelf(summary(MMC, "paper-table2", stages={"spsa-tar-8": 61.0}))), "128")[2] == "69.0 / 61.0"
    )
    assert cells(white_box_table(shelf(summary(SCE, "autoattack", robust=0))), "SCE")[-1] == "**≤ 0.18**"


def test_notes_stand_above_tables_only() -> None:
    page = results_page(shelf(summary("mine", "strict")), [])
    assert "C&W: mean L2" not in page
    assert "fair baseline" not in page
    assert page.count("No cell of this table") == 5
    assert "C&W: mean L2" in results_page(shelf(summary(SCE, "paper-table2", stages={"noise": 50.0})), [])


@pytest.mark.parametrize("end", ["-short", "-short-seed1", "-seed2", "-best"])
def test_a_short_budget_a_seed_or_a_checkpoint_is_no_row_of_the_papers(end: str) -> None:
    """Though its settings name the row, having come from the long one's."""
    name = f"cifar10-at-sce{end}"
    told = {"settings": {"train": {"epochs": 25}}, "epoch": 25, "table": "Table 1, AT un 10 (SCE)"}
    things = shelf(
        replace(summary(name, "autoattack"), model=told),
        run(name, [30.0], settings={"table": "Table 1, AT un 10 (SCE)", "train": {}}),
    )
    assert title_of(things, name) == f"at-sce{end}"
    assert things.paper(name, "clean") == []
    assert "AT un 10 (SCE)" not in results_page(things, [])
    own = shelf(replace(summary("cifar10-at-un-sce", "autoattack"), model=told))
    assert title_of(own, "cifar10-at-un-sce") == "AT un 10 (SCE)"


def test_a_bar_in_a_cell_breaks_no_table() -> None:
    assert markdown(["a|b"], [["c"]]).splitlines()[0] == "| a\\|b |"


def test_the_results_page_shows_the_figures_there_are() -> None:
    things = shelf(summary("mine", "strict"), summary("cifar10-at-un-sce", "strict"))
    page = results_page(things, ["budgets.svg", "transfer-x.svg"])
    assert "(figures/budgets.svg)" in page
    assert "(figures/transfer-x.svg)" in page
    assert "training.svg" not in page
    assert "| mine | 200 |" in page
    assert "Measured on NVIDIA H200, torch 2.11, 2026-11-01." in page
    moved = summary(MMC, "autoattack", environment={"device": "NVIDIA H200 and cpu", "started": "2026-11-01"})
    told = "Measured on NVIDIA H200 and cpu, torch not run, 2026-11-01; begun on one device and ended on another: `"
    assert f"{told}{MMC}`." in results_page(shelf(moved), [])


def test_the_readme_says_when_there_is_nothing() -> None:
    assert readme_block(shelf()).startswith("No model has been evaluated")
    block = readme_block(shelf(summary(MMC, "strict", robust=0)))
    assert "**does not hold**: MMC alone is reliably robust" in block
    assert cells(block, "MMC-10")[-2] == "**≤ 0.18**"


def test_figures_are_whole_documents_and_only_those_with_numbers() -> None:
    moved = (stage("t", 20.0, kind="transfer", source=SCE, title=f"PGD-10 crafted on {SCE}"),)
    drawn = figures(
        shelf(
            summary("cifar10-at-un-mmc", "autoattack", robust=44),
            summary("cifar10-at-un-sce", "autoattack", robust=40),
            summary(MMC, "paper-figure4", more=moved),
            run(SCE, [30.0, 9.0]),
        )
    )
    assert sorted(drawn) == ["budgets.svg", "training.svg", "transfer-paper-figure4-pgd-10.svg"]
    for text in drawn.values():
        assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
        assert "prefers-color-scheme:dark" in text
        assert not re.search(r"href|url\(|@import", text)
    assert "44.00 / 40.00" in drawn["budgets.svg"]
    assert "Long: 200 epochs" in drawn["budgets.svg"]
    assert ">20.0</text>" in drawn["transfer-paper-figure4-pgd-10.svg"]
    assert figures(shelf()) == {}


@pytest.mark.parametrize("name", list(ZOO))
def test_every_card_can_be_written_with_nothing_measured(name: str) -> None:
    text = card(shelf(), name)
    assert text.startswith(f"# {name}\n")
    assert f'maxmahal.load("{name}")' in text
    assert "has not been measured" in text


def test_a_card_shows_the_numbers_of_its_run() -> None:
    things = shelf(
        summary("cifar10-at-un-mmc", "autoattack", robust=44, clean=81),
        summary(MMC, "strict", robust=0.5),
        run("cifar10-at-un-mmc", [30.0], 100),
    )
    text = card(things, "cifar10-at-mmc")
    assert "| worst case of `autoattack` | – | 44.0 % [41.8, 46.2] |" in text
    assert "| clean | 81.8 | 81.0 % [79.2, 82.7] |" in text
    assert "weights of cifar10-at-un-mmc" in text
    assert "What autoattack says of cifar10-at-un-mmc." in text
    assert "**not robust**" not in text
    assert "**not robust**" in card(things, MMC)
    assert "| [cifar10-at-mmc](cifar10-at-mmc.md) |" in index(things, ["cifar10-at-mmc"])


def test_numbers_of_an_earlier_version_of_a_suite_are_named() -> None:
    now = load_suite("strict").version
    older = replace(summary(MMC, "strict", robust=0), suite_version=now - 1)
    newer = replace(summary(SCE, "strict", robust=0), suite_version=now)
    own = replace(summary(SCE, "a suite of one's own"), suite_version=0)
    told = missing_list(shelf(older, newer, own))
    assert f"- measured with version {now - 1} of `strict`, which is at version {now} now: `{MMC}`\n" in told
    assert told.count("measured with version") == 1
