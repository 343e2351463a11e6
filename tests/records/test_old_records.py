"""Records that version 0.1.0 wrote before ``records`` was a package of its own: they are read, shown and continued.

``old_records.sql`` is the dump of a small file of records, so that nothing here can write them anew by accident.
"""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from small_evaluations_helpers import everything, randn
from torch import nn

from maxmahal import MMC, Classifier
from maxmahal.data import ImageData
from maxmahal.evaluate import Suite, evaluate_model
from maxmahal.evaluate.suite import stage_from_table
from maxmahal.records import read_evaluations
from maxmahal.records.schema import FILE

COMMANDS = [
    ("report", "old", "--out", "page.html"),
    ("report", "old", "--out", "table.md"),
    ("records", "old"),
    ("records", "old", "--attack", "apgd", "--export", "rows.csv"),
    ("records", "old", "--export", "card", "--format", "robustbench"),
    ("--help",),
    ("report", "--help"),
]
WITHOUT_TORCH = """
import contextlib, io, json, sys
sys.modules["torch"] = None  # importing it is an error
from maxmahal.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["maxmahal", *words]
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        try:
            main()
        except SystemExit as stop:
            if stop.code:
                raise
    assert len(shown.getvalue()) > 10, words
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as the older version left it."""
    old = tmp_path / "old"
    old.mkdir()
    connection = sqlite3.connect(old / FILE)
    connection.executescript(Path(__file__).with_name("old_records.sql").read_text(encoding="utf-8"))
    connection.close()
    return old


def test_old_records_are_read(folder: Path) -> None:
    (found,) = read_evaluations(folder)
    assert found.verdict.sentence == (
        "Robust accuracy 50.0 % [11.8, 88.2] at Linf 8/255, the worst case per sample over every attack of old, and no "
        "sign of false robustness."
    )
    assert {stage.name: stage.columns.broken.tolist() for stage in found.stages} == {
        "clean": [False, False, False, False, False, True],
        "apgd": [False, False, True, False, True],
        "carlini": [True, True],
        "square": [False, False, False],
    }
    assert (len(found.findings), len(found.pictures), len(found.points)) == (8, 4, 3)
    assert found.plane == "features"
    assert found.centers_xy is not None


def test_reports_records_and_help_never_import_torch(folder: Path) -> None:
    script = [sys.executable, "-c", WITHOUT_TORCH, json.dumps(COMMANDS)]
    done = subprocess.run(script, cwd=folder.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Robust accuracy" in (folder.parent / "page.html").read_text(encoding="utf-8")
    assert len((folder.parent / "rows.csv").read_text(encoding="utf-8").splitlines()) == 6


def test_the_same_evaluation_again_finds_old_records_complete(folder: Path) -> None:
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    backbone[1].weight.data = randn(2, 2, 16) / 2
    backbone[1].bias.data = -backbone[1].weight.data.sum(dim=1) / 2
    model = Classifier(backbone, MMC(randn(3, 4, 2))).eval()
    pixels = torch.randint(0, 256, (6, 1, 4, 4), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    labels = model(pixels.float() / 255).argmax(dim=1)
    labels[-1] = (labels[-1] + 1) % 4
    data = ImageData.from_arrays("made", pixels, labels, [f"class {label}" for label in range(4)])
    once = {"scope": "all", "counts": False, "limit": 2}
    stages = (
        {"name": "apgd", "attack": "apgd", "steps": 4},
        {"name": "carlini", "attack": "carlini", "steps": 6, "search_steps": 2, **once},
        {"name": "square", "attack": "square", "queries": 12},
    )
    planned = tuple(stage_from_table(stage) for stage in stages)
    about = "from an older version"
    suite = Suite("old", 1, about, planned, epsilon="8/255", chunk=4, diagnose=True, mend=True)
    before = everything(folder)
    evaluate_model(model, out=folder, suite=suite, data=data)
    assert everything(folder) == before
