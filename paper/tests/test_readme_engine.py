"""The README's lines on training speed say what the benchmark and the paired runs measured."""

import importlib
import json
from pathlib import Path

import pytest

from paper.summaries import write_summary

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


@pytest.fixture
def readme() -> object:
    return importlib.import_module("paper.readme")


def publish(folder: Path, name: str, accuracy: float, lr: float = 0.02) -> None:
    precision, _, seed = name.removeprefix("precision-").partition("-seed")
    run = {
        "format": "maxmahal-run-summary-1",
        "name": name,
        "device": "cuda:0",
        "gpu": "Some GPU",
        "sharing": 1,
        "finished": True,
        "settings": {
            "loss": {"name": "mmc"},
            "train": {"batch_size": 512, "lr": lr, "seed": int(seed or 0)},
            "cuda": {"precision": precision, "compile": True},
        },
        "result": {},
        "train_seconds": 2.0,
        "epochs": [{"epoch": 1, "test_accuracy": 0.5}, {"epoch": 2, "test_accuracy": accuracy}],
    }
    (folder / "runs").mkdir(exist_ok=True)
    write_summary(folder / "runs" / f"{name}.json", run)


def test_what_was_measured_is_told(readme, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "train_engine_cuda.json").write_text(json.dumps(STUDY))
    text = readme.engine(tmp_path, tmp_path)
    assert "| plain, batch 128 | 9,000 | – | – | – |" in text
    assert "| engine, batch 128 | 50,000 | 5.5 | 2.5 | 10.0 % |" in text
    assert "| engine PGD-10, batch 256 | 4,500 | 4.5 | 4.5 | – |" in text
    assert "| standard, batch 256, 3 processes together | 120,000 | – | – | – |" in text
    assert "0.998 times" in text
    assert "10,000 images that never break takes 4.2 s, the first time, with compilation, 30 s." in text
    assert "bfloat16" not in text


def test_without_a_measurement_the_command_is_told(readme, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    assert "measures it" in readme.engine(tmp_path, tmp_path)


def test_bfloat16_is_compared_seed_by_seed(readme, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    for seed, (coarse, fine) in enumerate([(0.900, 0.901), (0.910, 0.913), (0.902, 0.904)]):
        publish(tmp_path, f"precision-bfloat16-seed{seed}", coarse)
        publish(tmp_path, f"precision-float32-seed{seed}", fine)
    publish(tmp_path, "precision-float32-seed3", 0.1)  # nobody to pair it with
    publish(tmp_path, "cifar10-sce", 0.1)
    text = readme.bfloat16_cost(tmp_path)
    assert (
        "Training MMC in bfloat16 instead of float32 (batch 512, learning rate 0.02, 2 epochs, 3 paired seeds)" in text
    )
    assert "by -0.20 points [-0.45, +0.05], a 95 % t interval over seeds: 90.4 % instead of 90.6 %" in text
    assert "Robust accuracy was not compared." in text


def test_runs_that_differ_in_more_than_their_precision_are_not_compared(readme, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    for seed in range(2):
        publish(tmp_path, f"precision-bfloat16-seed{seed}", 0.9)
        publish(tmp_path, f"precision-float32-seed{seed}", 0.9, lr=0.1)
    assert readme.bfloat16_cost(tmp_path) == ""
