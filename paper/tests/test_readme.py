"""The README's promises: its example runs, its tour names files that exist, its commands are commands."""

import importlib
import re
from pathlib import Path

import pytest
import torch

from maxmahal import MMC, Classifier, max_mahalanobis_centers
from maxmahal.cli.app import app
from maxmahal.models import SmallCNN

ROOT = Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_trains_a_plain_model_with_mmc(capsys: pytest.CaptureFixture[str]) -> None:
    script = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)[0]
    lines = [line for line in script.splitlines() if line and not line.startswith(("import", "from"))]
    assert len(lines) <= 11  # ten and the print that shows it worked
    exec(compile(script, "README.md", "exec"), {})
    (accuracy,) = re.findall(r"test accuracy (\d+\.\d)%", capsys.readouterr().out)
    assert float(accuracy) > 85


def test_the_second_example_attacks_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    script = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)[1]
    images = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    model = Classifier(SmallCNN(image_size=(8, 8), feature_dim=8), MMC(max_mahalanobis_centers(10, 8))).eval()
    exec(compile(script, "README.md", "exec"), {"model": model, "images": images, "labels": torch.arange(4)})
    assert "Passes(forward=" in capsys.readouterr().out


def test_its_tables_say_what_the_records_say() -> None:
    readme = importlib.import_module("paper.readme")
    assert readme.rendered(README) == README
    for path, page in readme.PAGES.items():
        assert path.read_text(encoding="utf-8") == page(), path.name


def test_the_tour_names_what_is_there() -> None:
    rows = re.findall(r"^\| `(\w+)/` \|.*\| (.*) \|$", README, flags=re.MULTILINE)
    packages = {path.parent.name for path in (ROOT / "src/maxmahal").glob("*/__init__.py")}
    assert {folder for folder, _ in rows} == packages
    for folder, files in rows:
        for file in re.findall(r"`(\w+\.py)`", files):
            assert (ROOT / "src/maxmahal" / folder / file).exists(), f"{folder}/{file}"


def test_its_commands_exist() -> None:
    names = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    mentioned = set(re.findall(r"^ {4}maxmahal (\w+)", README, flags=re.MULTILINE))
    assert mentioned
    assert mentioned <= names
