"""The digits models that the studies attack, trained once and kept under ``runs/studies``; and where records go."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

import maxmahal
from maxmahal.data import ImageData, load_dataset
from maxmahal.files import write_text_atomically
from paper import ROOT

RECORDS = ROOT / "paper" / "studies" / "records"
Found = TypeVar("Found")
RUNS = ROOT / "runs" / "studies"
MODELS: dict[str, tuple[str, list[str]]] = {
    "SCE": ("digits-sce", []),
    "MMC, scale 1": ("digits-mmc", ["loss.scale=1.0"]),
    "MMC, scale 2": ("digits-mmc", ["loss.scale=2.0", "train.lr=0.01"]),
    "AT (SCE)": ("digits-at-sce", []),
    "AT (MMC)": ("digits-at-mmc", []),
}


def digits_model(title: str) -> maxmahal.Classifier:
    """A model by its title."""
    return trained(*MODELS[title], title.lower().replace(" ", "-").translate(str.maketrans("", "", ",()")))


def trained(preset: str, overrides: Sequence[str], folder: str) -> maxmahal.Classifier:
    """Trained once; an interrupted training is resumed."""
    out = RUNS / folder
    if not (out / "result.json").exists():
        maxmahal.train_model(maxmahal.load_settings(preset, overrides), out, resume=out.exists())
    return maxmahal.load(out)


def digits_test() -> ImageData:
    """All 500 test images."""
    return load_dataset("digits", "test")


def attacked(attack: Callable[..., Found], model: nn.Module, data: ImageData, **settings: Any) -> Found:
    """An attack with seed 0 on every image."""
    return attack(model, data.float_images(), data.labels, sample_ids=data.sample_ids, seed=0, **settings)


def save_record(name: str, content: dict[str, Any]) -> Path:
    """One JSON file, which tables and figures read."""
    record = {
        "study": name,
        "date": datetime.now(UTC).date().isoformat(),
        "torch": torch.__version__,
        "maxmahal": maxmahal.__version__,
        **content,
    }
    path = RECORDS / f"{name}.json"
    write_text_atomically(path, json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    return path
