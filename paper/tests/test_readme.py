"""The README's promises: its example runs, its tour names files that exist, its commands are commands."""

import json
import re
from pathlib import Path

import pytest
import torch
from made_up_summaries import published, run

from maxmahal import MMC, Classifier, max_mahalanobis_centers
from maxmahal.cli.app import app
from maxmahal.models import SmallCNN
from paper import ROOT, readme
from paper.summaries import RunSummary

README = (ROOT / "README.md").read_text(encoding="utf-8")


def snippet(word: str) -> str:
    """The one example of the README that uses a name."""
    (found,) = (each for each in re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL) if word in each)
    return found


def small_case() -> dict[str, object]:
    model = Classifier(SmallCNN(image_size=(8, 8), feature_dim=8), MMC(max_mahalanobis_centers(10, 8))).eval()
    images = torch.randint(256, (10, 1, 8, 8), generator=torch.Generator().manual_seed(0)) / 255
    return {"model": model, "images": images, "labels": torch.arange(10)}


def test_the_readme_is_short() -> None:
    assert len(README.split()) <= 1200


def test_a_model_is_evaluated_in_four_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = snippet("evaluate_model(")
    assert len(script.split("\n")) <= 5
    monkeypatch.chdir(tmp_path)
    exec(compile(script.replace('"strict"', '"quick"'), "README.md", "exec"), small_case())
    assert "at Linf 8/255, the worst case per sample over every attack of quick" in capsys.readouterr().out


def test_the_example_trains_a_plain_model_with_mmc(capsys: pytest.CaptureFixture[str]) -> None:
    script = snippet("max_mahalanobis_centers(")
    lines = [line for line in script.splitlines() if line and not line.startswith(("import", "from"))]
    assert len(lines) <= 11  # ten and the print that shows it worked
    exec(compile(script, "README.md", "exec"), {})
    (accuracy,) = re.findall(r"test accuracy (\d+\.\d)%", capsys.readouterr().out)
    assert float(accuracy) > 85


def test_the_attack_example_attacks_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(snippet("pgd("), "README.md", "exec"), small_case())
    assert "Passes(forward=" in capsys.readouterr().out


def test_its_tables_and_the_pages_of_docs_say_what_the_records_say() -> None:
    readme.check()


def test_blocks_are_filled_between_their_markers_alone() -> None:
    text = "a\n<!-- trust: begin -->\nold\n<!-- trust: end -->\nb\n"
    made = readme.rendered(text)
    assert made.startswith("a\n<!-- trust: begin -->\n| model | `strict` | AutoAttack |")
    assert made.endswith("|\n<!-- trust: end -->\nb\n")
    assert readme.rendered(made) == made
    for wrong in (text.replace("trust", "other"), text.replace("<!-- trust: end -->", ""), text * 2):
        with pytest.raises(SystemExit, match="one pair of"):
            readme.rendered(wrong)


@pytest.mark.parametrize("name", list(readme.PAGES))
def test_pages_of_docs_have_their_tables(name: str) -> None:
    page = readme.page(name)
    assert page.count("\n|---") >= len(readme.PAGES[name])
    assert not re.search(r"\b(nan|None)\b", page)


def test_the_tour_names_what_is_there() -> None:
    rows = re.findall(r"^\| `(\w+)/` \|.*\| (.*) \|$", README, flags=re.MULTILINE)
    packages = {path.parent.name for path in (ROOT / "src/maxmahal").glob("*/__init__.py")}
    assert {folder for folder, _ in rows} == packages
    for folder, files in rows:
        for file in re.findall(r"`(\w+\.py)`", files):
            assert (ROOT / "src/maxmahal" / folder / file).exists(), f"{folder}/{file}"


def test_its_commands_exist() -> None:
    names = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    mentioned = set(re.findall(r"^maxmahal (\w+)", README, flags=re.MULTILINE))
    assert mentioned
    assert mentioned <= names


# Training speed

STUDY = {
    "device": "Some GPU",
    "torch": "2.11",
    "date": "2026-01-02",
    "command": "python benchmarks/train_engine.py",
    "bandwidth_limit_images_per_second": 500_000.0,
    "rows": [
        {"name": "plain, batch 128", "images_per_second": 9_000.0},
        {"name": "plain, batch 512", "images_per_second": 20_000.0},
        {"name": "plain PGD-10, batch 256", "images_per_second": 1_000.0},
        {"name": "engine PGD-10, batch 256", "images_per_second": 4_500.0, "times_faster_than_plain": 4.5},
        {
            "name": "engine, batch 128",
            "images_per_second": 50_000.0,
            "times_faster_than_plain": 5.5,
            "share_of_bandwidth_limit": 0.1,
        },
    ],
    "processes": [{"name": "standard, batch 256", "processes": 3, "images_per_second": 120_000.0}],
    "mmc_over_sce": 0.998,
    "pgd50": {"images": 10_000, "first_seconds": 30.0, "seconds": 4.2},
}


def test_the_speed_of_training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(readme, "BENCHMARKS", tmp_path)
    monkeypatch.setattr(readme, "PUBLISHED", tmp_path)
    (tmp_path / "train_engine_cuda.json").write_text(json.dumps(STUDY))
    text = readme.block("engine")
    assert "| plain, batch 128 | 9,000 | – | – | – |" in text
    assert "| engine, batch 128 | 50,000 | 5.5 | 2.5 | 10.0 % |" in text
    assert "| engine PGD-10, batch 256 | 4,500 | 4.5 | 4.5 | – |" in text
    assert "| standard, batch 256, 3 processes | 120,000 | – | – | – |" in text
    assert "bfloat16" not in text


def precision(name: str, accuracy: float, lr: float = 0.02) -> RunSummary:
    kind, _, seed = name.partition("-seed")
    settings = {
        "loss": {"name": "mmc"},
        "train": {"batch_size": 512, "lr": lr, "seed": int(seed)},
        "cuda": {"precision": kind, "compile": True},
    }
    return run(f"precision-{name}", [50.0, 100 * (1 - accuracy)], settings=settings)


def test_bfloat16_is_compared_seed_by_seed() -> None:
    pairs = [(0.900, 0.901), (0.910, 0.913), (0.902, 0.904)]
    runs = [precision(f"bfloat16-seed{seed}", pair[0]) for seed, pair in enumerate(pairs)]
    runs += [precision(f"float32-seed{seed}", pair[1]) for seed, pair in enumerate(pairs)]
    runs.append(precision("float32-seed3", 0.1))  # without a partner
    found = readme.bfloat16_cost(published(*runs))
    assert found is not None
    assert found["gap"].values == pytest.approx((-0.1, -0.3, -0.2))
    assert (found["gap"].interval, found["ours"]) == (pytest.approx((-0.448, 0.048), abs=1e-3), pytest.approx(90.4))


def test_runs_that_differ_in_more_than_their_precision_are_not_compared() -> None:
    runs = [precision(f"bfloat16-seed{seed}", 0.9) for seed in range(2)]
    runs += [precision(f"float32-seed{seed}", 0.9, lr=0.1) for seed in range(2)]
    assert readme.bfloat16_cost(published(*runs)) is None
