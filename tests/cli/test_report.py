"""``maxmahal report`` and ``maxmahal records`` on real records."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from maxmahal.data import ImageData
from maxmahal.evaluate import Suite, evaluate_models, read_evaluations
from maxmahal.evaluate.suite import stage_from_table

STAGE = stage_from_table({"name": "pgd", "attack": "pgd", "steps": 3, "scope": "all"})
SUITE = Suite("small", 1, "one attack", (STAGE,), epsilon="0.1")


def some_data() -> ImageData:
    draw = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (40, 1, 4, 4), generator=draw, dtype=torch.uint8)
    return ImageData.from_arrays("made up", images, torch.arange(40) % 3, ("a", "b", "c"))


def linear(seed: int) -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    with torch.no_grad():
        model[1].weight.copy_(torch.randn(3, 16, generator=torch.Generator().manual_seed(seed)))
        model[1].bias.zero_()
    return model.eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two linear models under one short attack."""
    out = tmp_path_factory.mktemp("records")
    evaluate_models({"one": linear(1), "two": linear(2)}, out=out, suite=SUITE, data=some_data())
    return out


@pytest.mark.parametrize("format", ["html", "md", "csv", "latex"])
def test_a_report_in_one_file(run, folder: Path, tmp_path: Path, format: str) -> None:
    done = run("report", folder, "--out", tmp_path / "report", "--format", format)
    assert done.code == 0, done.err
    text = (tmp_path / "report").read_text(encoding="utf-8")
    assert "one" in text
    assert "two" in text


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("tab.csv", "model,"),
        ("tab.md", "**made up"),
        ("TAB.TEX", "% made up"),
        ("page.html", "<!doctype html>"),
        ("page", "<!doctype html>"),
    ],
)
def test_the_ending_says_what_to_write(run, folder: Path, tmp_path: Path, name: str, begins: str) -> None:
    done = run("report", folder, "--out", tmp_path / name)
    assert done.code == 0, done.err
    assert (tmp_path / name).read_text(encoding="utf-8").lower().startswith(begins)


@pytest.mark.parametrize(
    ("name", "format", "parts"),
    [
        ("tab.csv", "html", ("--format html does not fit --out", "tab.csv, whose ending means csv")),
        ("page.html", "latex", ("--format latex does not fit", "means html")),
        ("tab.md", "svg", ("--format svg does not fit", "means md")),
        ("tab.xlsx", None, ("'tab.xlsx'", "choose a --format: html, md, csv")),
        ("plots.png", None, ("figures go into a folder", "plots --format png")),
    ],
)
def test_a_format_that_does_not_fit_the_ending_is_refused(
    run, folder: Path, tmp_path: Path, name: str, format: str | None, parts: tuple[str, ...]
) -> None:
    (tmp_path / name).write_text("mine")
    done = run("report", folder, "--out", tmp_path / name, *(("--format", format) if format else ()))
    done.assert_refused(*parts)
    assert (tmp_path / name).read_text() == "mine"


def test_figures_go_into_a_folder(run, folder: Path, tmp_path: Path) -> None:
    done = run("report", folder, "--out", tmp_path / "figures", "--format", "svg")
    assert done.code == 0, done.err
    assert list((tmp_path / "figures").glob("*.svg"))


def test_records_are_shown_filtered_and_exported(run, folder: Path, tmp_path: Path) -> None:
    shown = run("records", folder)
    assert shown.code == 0, shown.err
    assert "pgd" in shown.out
    done = run("records", folder, "--model", "one", "--attack", "pgd", "--broken", "--export", tmp_path / "broken.csv")
    assert done.code == 0, done.err
    with (tmp_path / "broken.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    columns = read_evaluations(folder)[0].stage("pgd").columns
    by_the_attack = columns.broken & columns.right_before
    assert [int(row["sample"]) for row in rows] == columns.sample[by_the_attack].tolist()
    assert {row["model"] for row in rows} == {"one"}
    assert np.count_nonzero(columns.broken) > len(rows) > 0


def test_records_in_two_balls_are_told_apart(run, tmp_path: Path) -> None:
    for epsilon in ("0.1", "0.05"):
        suite = replace(SUITE, epsilon=epsilon)
        evaluate_models({"one": linear(1)}, out=tmp_path, suite=suite, data=some_data())
    shown = run("records", tmp_path)
    assert shown.code == 0, shown.err
    assert "one (Linf 0.1)" in shown.out
    assert "one (Linf 0.05)" in shown.out


@pytest.mark.parametrize("part", [("--attack", "pgd"), ("--broken",), ("--sample", 0)], ids=str)
def test_no_robustbench_card_of_a_part_of_an_evaluation(run, folder: Path, tmp_path: Path, part: tuple) -> None:
    card = ("--export", tmp_path / "cards", "--format", "robustbench")
    run("records", folder, "--model", "one", *part, *card).assert_refused("complete evaluation")
    assert not (tmp_path / "cards").exists()


def test_the_robustbench_card_is_of_one_model(run, folder: Path, tmp_path: Path) -> None:
    refused = run("records", folder, "--export", tmp_path / "cards", "--format", "robustbench")
    refused.assert_refused("RobustBench's card describes one evaluation")
    done = run("records", folder, "--model", "one", "--export", tmp_path / "cards", "--format", "robustbench")
    assert done.code == 0, done.err
    (card,) = (tmp_path / "cards").rglob("*.json")
    assert json.loads(card.read_text())["eps"]
    file = tmp_path / "one.json"
    assert (
        run("records", folder, "--model", "one", "--export", file, "--format", "robustbench").out == f"Wrote {file}.\n"
    )
    assert file.read_text() == card.read_text()


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One model on all of its images, and once more on the first few."""
    out = tmp_path_factory.mktemp("twice")
    for limit in (None, 6):
        evaluate_models({"a": linear(1)}, out=out, suite=SUITE, data=some_data(), limit=limit)
    return out


def test_two_evaluations_of_one_model_can_be_told_apart_and_chosen(run, twice: Path, tmp_path: Path) -> None:
    assert run("report", twice, "--out", tmp_path / "tab.csv").code == 0
    with (tmp_path / "tab.csv").open(newline="") as file:
        assert [row["model"] for row in csv.DictReader(file)] == ["a (40 samples)", "a (6 samples)"]
    assert "a (6 samples)" in run("records", twice).out
    card = ("records", twice, "--export", tmp_path / "cards", "--format", "robustbench")
    run(*card, "--model", "a").assert_refused("choose --model 'a (40 samples)' or --model 'a (6 samples)'.")
    done = run(*card, "--model", "a (6 samples)")
    assert done.code == 0, done.err
    (path,) = (tmp_path / "cards").rglob("*.json")
    assert done.out == f"Wrote {path}.\n"
    assert "6 samples" in json.loads(path.read_text())["footnote"]
    assert run(*card, "--model", "a (40 samples)").code == 0
    assert len(list((tmp_path / "cards").rglob("*.json"))) == 2
    shown = run("records", twice, "--model", "a (6 samples)", "--attack", "pgd", "--sample", "0")
    assert "a (6 samples)" in shown.out
    assert "a (40 samples)" not in shown.out


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("report", "nowhere", "--out", "x.html"), "There are no records in nowhere"),
        (("records", "nowhere"), "There are no records in nowhere"),
        (("report", "FOLDER", "--out", "x", "--format", "htm"), "did you mean 'html'"),
        (("records", "FOLDER", "--export", "x.xlsx"), "cannot be written as 'xlsx'"),
    ],
)
def test_mistakes_are_told_in_one_sentence(run, folder: Path, words: tuple[str, ...], part: str) -> None:
    done = run(*(folder if word == "FOLDER" else word for word in words))
    done.assert_refused(part)


def test_nothing_matches(run, folder: Path) -> None:
    done = run("records", folder, "--sample", 12345)
    assert done.code == 0
    assert done.out == "No record matches.\n"


def test_a_skipped_attack_is_no_part_of_autoattack_s_number(run, tmp_path: Path) -> None:
    # It needs four classes, and there are three.
    table = {"name": "apgd-t", "attack": "autoattack", "part": "apgd-t"}
    suite = replace(SUITE, name="autoattack", stages=(STAGE, stage_from_table(table)))
    evaluate_models({"one": linear(1)}, out=tmp_path / "records", suite=suite, data=some_data())
    assert read_evaluations(tmp_path / "records")[0].stage("apgd-t").skipped
    done = run("records", tmp_path / "records", "--export", tmp_path / "cards", "--format", "robustbench")
    assert done.code == 0, done.err
    (path,) = (tmp_path / "cards").rglob("*.json")
    card = json.loads(path.read_text())
    assert (card["autoattack_acc"], card["external"] is None) == (None, False)
