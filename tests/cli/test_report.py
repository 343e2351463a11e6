"""``maxmahal report`` and ``maxmahal records`` on real records."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from maxmahal.data import ImageData
from maxmahal.evaluate import Suite, evaluate_models, read_evaluations
from maxmahal.evaluate.kinds import KINDS
from maxmahal.evaluate.suite import stage_from_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two linear models under one short attack."""
    out = tmp_path_factory.mktemp("records")
    draw = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (40, 1, 4, 4), generator=draw, dtype=torch.uint8)
    data = ImageData.from_arrays("made up", images, torch.arange(40) % 3, ("a", "b", "c"))
    models = {}
    for name in ("one", "two"):
        model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
        with torch.no_grad():
            model[1].weight.copy_(torch.randn(3, 16, generator=draw))
        models[name] = model.eval()
    stage = stage_from_table({"name": "pgd", "attack": "pgd", "steps": 3, "scope": "all"}, KINDS)
    evaluate_models(models, out=out, suite=Suite("small", 1, "one attack", (stage,), epsilon="0.1"), data=data)
    return out


@pytest.mark.parametrize("format", ["html", "md", "csv", "latex"])
def test_a_report_in_one_file(run, folder: Path, tmp_path: Path, format: str) -> None:
    done = run("report", folder, "--out", tmp_path / "report", "--format", format)
    assert done.code == 0, done.err
    text = (tmp_path / "report").read_text(encoding="utf-8")
    assert "one" in text
    assert "two" in text


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
    assert [int(row["sample"]) for row in rows] == columns.sample[columns.broken].tolist()
    assert {row["model"] for row in rows} == {"one"}
    assert np.count_nonzero(columns.broken) == len(rows) > 0


def test_the_robustbench_card_is_of_one_model(run, folder: Path, tmp_path: Path) -> None:
    refused = run("records", folder, "--export", tmp_path / "cards", "--format", "robustbench")
    refused.assert_refused("RobustBench's card is of one model")
    done = run("records", folder, "--model", "one", "--export", tmp_path / "cards", "--format", "robustbench")
    assert done.code == 0, done.err
    (card,) = (tmp_path / "cards").rglob("*.json")
    assert json.loads(card.read_text())["eps"]


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
