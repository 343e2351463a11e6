"""Published results made up by hand: summaries whose every number is asked for."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from maxmahal.records.statistics import Rate
from paper.pages.results import Published
from paper.summaries import RunSummary, StageSummary, Summary

IMAGES = 2000


def stage(name: str, percent: float, images: int = IMAGES, **changes: Any) -> StageSummary:
    """An attack on every image that leaves the first so many percent right; of C&W, the mean distance."""
    far = name.startswith("cw-")
    facts: dict[str, Any] = {
        "name": name,
        "title": name,
        "kind": "carlini" if far else "pgd",
        "threat": "" if far else "Linf 8/256",
        "scope": "all",
        "counts": True,
        "skipped": "",
        "source": "",
        "samples": images,
        "accuracy": Rate(0.0 if far else float(round(images * percent / 100)), images),
        "broke": 0,
        "distortion": float(percent) if far else None,
        "distortion_error": 0.001 if far else None,
        "right": np.arange(images) < (0 if far else round(images * percent / 100)),
    }
    return StageSummary(**{**facts, **changes})


def summary(
    model: str,
    suite: str,
    robust: float = 50.0,
    clean: float = 80.0,
    stages: Mapping[str, float] | None = None,
    more: tuple[StageSummary, ...] = (),
    **changes: Any,
) -> Summary:
    """The first images are robust, and the first images are correct: a model with more of them leads on just these."""
    count = changes.get("samples", IMAGES)
    unit = 256 if suite.startswith(("paper", "spsa")) else 255
    right, stands = (np.arange(count) < round(count * share / 100) for share in (clean, robust))
    facts: dict[str, Any] = {
        "name": model,
        "data": "cifar10",
        "suite": suite,
        "suite_version": 1,
        "seed": 0,
        "samples": count,
        "limited": False,
        "norm": "Linf",
        "epsilon": f"8/{unit}",
        "radius": 8 / unit,
        "model_fingerprint": f"weights of {model}",
        "data_fingerprint": f"images {count}",
        "model": {"settings": {"train": {"epochs": 200}}, "epoch": 200, "table": ""},
        "environment": {"device": "NVIDIA H200", "versions": {"torch": "2.11"}, "started": "2026-11-01T10:00:00"},
        "clean": Rate(float(right.sum()), count),
        "robust": Rate(float(stands.sum()), count),
        "trust": "held",
        "stages": (*(stage(name, value, count) for name, value in (stages or {}).items()), *more),
        "right": right,
        "stands": stands,
    }
    return Summary(**{**facts, **changes})


def run(name: str, errors: list[float], seconds: float = 10.0, **changes: Any) -> RunSummary:
    """A training with these test errors in percent, epoch by epoch."""
    epochs = tuple(
        {"epoch": place + 1, "train_seconds": float(seconds * (place + 1)), "test_accuracy": 1 - error / 100}
        for place, error in enumerate(errors)
    )
    facts: dict[str, Any] = {
        "name": name,
        "finished": True,
        "settings": {"train": {"epochs": len(errors), "batch_size": 50}, "model": {"backbone": "resnet32"}},
        "device": "cuda:0",
        "epochs": epochs,
        "train_seconds": float(seconds * len(errors)),
        "result": {"last": {"epoch": len(errors)}},
        "gpu": "NVIDIA H200",
        "sharing": 1,
    }
    return RunSummary(**{**facts, **changes})


def published(*things: Summary | RunSummary) -> Published:
    """Summaries of both kinds."""
    return Published(
        tuple(each for each in things if isinstance(each, Summary)),
        tuple(each for each in things if isinstance(each, RunSummary)),
    )
