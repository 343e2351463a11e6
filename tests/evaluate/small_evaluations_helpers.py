"""Tiny models, data and suites, and what a folder of records holds: for the tests of evaluations."""

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from maxmahal.data import ImageData
from maxmahal.evaluate import Stage, Suite
from maxmahal.evaluate.suite import stage_from_table
from maxmahal.losses import MMC
from maxmahal.models import Classifier
from maxmahal.records import Columns, Evaluation, Rating, StageRecords
from maxmahal.records.schema import FILE

CLASSES, SIDE = 4, 4

# What makes a record: who, with what outcome, after how many steps. Seconds may differ.
IDENTITY = (
    "sample", "label", "clean_prediction", "prediction", "right_before", "broken", "iterations", "forward",
    "backward", "queries",
)  # fmt: skip


def randn(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Curved(nn.Module):
    """One hidden layer on 4x4 images, summed up image by image, so that company cannot change a rounding."""

    def __init__(self, seed: int = 0, classes: int = CLASSES) -> None:
        super().__init__()
        self.first = nn.Parameter(randn(seed, 10, SIDE * SIDE) / 2)
        self.second = nn.Parameter(randn(seed + 1, classes, 10) / 2)
        self.seen = 0

    def forward(self, images: Tensor) -> Tensor:
        self.seen += len(images)
        hidden = ((images.flatten(1) - 0.5)[:, None] * self.first).sum(dim=2).tanh()
        return (hidden[:, None] * self.second).sum(dim=2)


class Noisy(Curved):
    """A model that draws."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images) + 0.3 * torch.randn(len(images), 1) * torch.arange(CLASSES)


class Flat(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1)


def curved(seed: int = 0) -> Curved:
    return Curved(seed).eval()


def answers_only(images: Tensor) -> Tensor:
    """A predict function, without gradients."""
    with torch.no_grad():
        return Curved(0)(images)


def classifier(feature_dim: int = 6) -> Classifier:
    """Features a linear map of the pixels, MMC centers."""
    backbone = nn.Sequential(Flat(), nn.Linear(SIDE * SIDE, feature_dim))
    backbone[1].weight.data = randn(2, feature_dim, SIDE * SIDE) / 2
    backbone[1].bias.data = -backbone[1].weight.data.sum(dim=1) / 2
    return Classifier(backbone, MMC(randn(3, CLASSES, feature_dim))).eval()


def labelled_by(model: nn.Module, count: int = 24, *, wrong: int = 3, seed: int = 0, name: str = "made") -> ImageData:
    """Random images with the model's own answers as labels, but for the last few."""
    pixels = torch.randint(0, 256, (count, 1, SIDE, SIDE), generator=torch.Generator().manual_seed(seed))
    images = pixels.to(torch.uint8)
    with torch.no_grad():
        labels = model(images.float() / 255).argmax(dim=1)
    if wrong:
        labels[-wrong:] = (labels[-wrong:] + 1) % CLASSES
    return ImageData.from_arrays(name, images, labels, [f"class {label}" for label in range(CLASSES)])


def stage(name: str, attack: str, **options: Any) -> Stage:
    return stage_from_table({"name": name, "attack": attack, **options})


def small_stages() -> tuple[Stage, ...]:
    """One of every kind that is cheap; the second half runs on all samples and does not count."""
    everyone = {"scope": "all", "counts": False}
    return (
        stage("fgsm", "fgsm", epsilon="0.02", **everyone),
        stage("apgd", "apgd", steps=4, objective="cross-entropy"),
        stage("pgd", "pgd", steps=4, restarts=2),
        stage("square", "square", queries=12),
        stage("spsa", "spsa", steps=2, evaluations=8),
        stage("mim", "mim", steps=3, scope="all"),
        stage("carlini", "carlini", steps=6, search_steps=2, **everyone),
        stage("fmn", "fmn", steps=6, limit=9, **everyone),
        stage("noise", "noise", std=0.3, tries=3, **everyone),
        stage("rotation", "rotation", tries=2, **everyone),
    )


def small_suite(*stages: Stage, **changes: Any) -> Suite:
    suite = Suite("small", 1, "for tests", stages or small_stages(), epsilon="0.08", chunk=5)
    return replace(suite, **changes)


def many_chunks() -> Suite:
    """A dozen chunks a stage, for several processes to share."""
    on_all = stage("mim", "mim", steps=2, scope="all")
    return small_suite(stage("apgd", "apgd", steps=3), stage("square", "square", queries=10), on_all, chunk=2)


def identity(evaluation: Evaluation) -> dict[str, dict[str, list[Any]]]:
    """Every stage's records in the columns that must not depend on how they came about."""
    return {
        each.name: {column: getattr(each.columns, column).tolist() for column in IDENTITY} for each in evaluation.stages
    }


def rows(folder: Path, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(folder / FILE)
    try:
        return connection.execute(f"SELECT {columns} FROM {table} ORDER BY 1, 2, 3").fetchall()
    finally:
        connection.close()


def everything(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table."""
    names = ("about", "evaluations", "findings", "stages", "chunks", "records", "pictures", "points")
    connection = sqlite3.connect(folder / FILE)
    try:
        return {name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in names}
    finally:
        connection.close()


def columns_of(right_share: Sequence[float], samples: Sequence[int] | None = None) -> Columns:
    """Records that say nothing but how often each sample came out right."""
    share = np.array(right_share, dtype=float)
    ids = np.arange(len(share)) if samples is None else np.array(samples, dtype=np.int64)
    ones = np.ones(len(share), dtype=np.int64)
    return Columns(
        sample=ids, label=0 * ones, clean_prediction=0 * ones, prediction=np.where(share >= 0.5, 0, 1),
        right_before=share >= 0.5, broken=share < 0.5, right_share=share, distortion=np.full(len(share), np.nan),
        iterations=ones, forward=ones, backward=ones, queries=ones,
    )  # fmt: skip


def stage_records(
    name: str, right_share: Sequence[float], samples: Sequence[int] | None = None, **changes: Any
) -> StageRecords:
    return stage_of(name, columns_of(right_share, samples), **changes)


def stage_of(name: str, columns: Columns, **changes: Any) -> StageRecords:
    """A finished stage of the suite on all samples, unless told otherwise."""
    made = StageRecords(
        name=name, title=name, kind="pgd", settings={}, threat="Linf 8/255", scope="all", origin="suite", counts=True,
        skipped="", finished=True, planned=len(columns), columns=columns, rating=Rating(1.0, 1, 1, 1),
    )  # fmt: skip
    return replace(made, **changes)


def made_up(*stages: StageRecords, **changes: Any) -> Evaluation:
    """An evaluation made by hand."""
    made = Evaluation(
        name="model", target="runs/model", data="made", suite="small", suite_version=1, suite_about="", seed=0,
        samples=len(stages[0].columns) if stages else 4, norm="Linf", epsilon="8/255", radius=8 / 255,
        model_fingerprint="m", data_fingerprint="d", class_names=("a", "b"), model={}, environment={}, training=[],
        stages=stages, findings=(), pictures=(), points=(), centers_xy=None, plane="", finished=True,
    )  # fmt: skip
    return replace(made, **changes)
