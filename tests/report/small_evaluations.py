"""Evaluations made by hand, small enough to check by eye."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from small_evaluations_helpers import made_up, stage_of

from maxmahal.records import Columns, Evaluation, Finding, Picture, Points, Rating, StageRecords

LABELS = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0])


def make_columns(
    broken: Sequence[int],
    samples: Sequence[int] = range(10),
    distortion: Sequence[float] | None = None,
    costs: int = 20,
) -> Columns:
    """Rows for ``samples`` of the ten; those in ``broken`` come out wrong, and sample 9 is wrong to begin with."""
    ids = np.array(samples, dtype=np.int64)
    labels = LABELS[ids]
    wrong = np.isin(ids, broken)
    cost = np.full(len(ids), costs)
    return Columns(
        sample=ids,
        label=labels,
        clean_prediction=np.where(ids == 9, 1, labels),
        prediction=np.where(wrong, (labels + 1) % 3, labels),
        right_before=ids != 9,
        broken=wrong,
        right_share=np.where(wrong, 0.0, 1.0),
        distortion=np.full(len(ids), np.nan) if distortion is None else np.array(distortion, dtype=float),
        iterations=cost,
        forward=cost + 1 if costs >= 0 else cost,
        backward=cost,
        queries=np.zeros_like(cost) if costs >= 0 else cost,
    )


def make_stage(name: str, columns: Columns, **changes: Any) -> StageRecords:
    """A finished stage of the suite on all samples, unless told otherwise."""
    costs = {"settings": {"steps": 20, "epsilon": "8/255"}, "rating": Rating(1.0, 210, 200, 0)}
    return stage_of(name, columns, **{**costs, **changes})


def make_stages() -> tuple[StageRecords, ...]:
    """Clean images (90 %), PGD alone (60 %), Square on who is left (50 % in all), C&W, and one that did not run."""
    near = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, float("nan"), 0.0]
    return (
        make_stage("clean", make_columns([9]), kind="clean", title="Clean", settings={}, threat=""),
        make_stage("pgd10-un-8", make_columns([0, 1, 2, 9]), title="PGD-10, untargeted"),
        make_stage(
            "square", make_columns([3], [3, 4, 5, 6, 7, 8], costs=-1), kind="square", title="Square", scope="survivors"
        ),
        make_stage(
            "cw-un", make_columns([*range(8), 9], distortion=near), kind="carlini", title="C&W", threat="", counts=False
        ),
        make_stage("fab", make_columns([], []), title="FAB", skipped="FAB needs pyautoattack.", finished=False),
    )


def make_evaluation(**changes: Any) -> Evaluation:
    """Ten samples of three classes; sample 9 is wrong from the start, the worst case is 50 %."""
    evaluation = made_up(
        *make_stages(),
        name="mmc",
        target="runs/mmc",
        data="cifar10",
        suite="standard",
        model_fingerprint="m0",
        data_fingerprint="d0",
        class_names=("cat", "dog", "ship"),
        model={
            "kind": "classifier",
            "parameters": 7,
            "loss": "mmc",
            "settings": {"data": {"source": "cifar10"}, "model": {"backbone": "resnet32"}, "train": {"seed": 0}},
            "table": "Table 1, MMC-10; Table 5, CIFAR-10, MMC (Res.32)",
            "epoch": 2,
            "stochastic": False,
            "draws": 1,
        },
        environment={"versions": {"torch": "2.11.0", "maxmahal": "0.4.0"}, "device": "cpu"},
        training=[
            {"epoch": 1, "train_seconds": 2.0, "test_accuracy": 0.5},
            {"epoch": 2, "train_seconds": 4.0, "test_accuracy": 0.9},
        ],
    )
    return replace(evaluation, **changes)


def make_rich_evaluation(**changes: Any) -> Evaluation:
    """One with something for every figure."""
    falling = {
        "steps": [10, 50, 100],
        "accuracy_by_steps": [0.6, 0.55, 0.5],
        "restarts": [1, 5],
        "accuracy_by_restarts": [0.55, 0.5],
    }
    growth = {"epsilons": [0.0, 0.03, 0.06], "accuracies": [0.9, 0.5, 0.1]}
    image = np.linspace(0, 1, 3 * 4 * 4).reshape(3, 4, 4)
    points = np.stack([np.cos(np.arange(10.0)), np.sin(np.arange(10.0))], axis=1)
    moved = make_stage(
        "from-sce", make_columns([0, 9]), kind="transfer", origin="transfer", settings={"source": "sce"}, title="sce"
    )
    evaluation = make_evaluation(
        stages=(*make_stages(), moved),
        findings=(
            Finding("epsilon-growth", "Epsilon", False, "Falls.", "", numbers=growth),
            Finding("still-falling", "Budget", False, "Flat.", "", numbers=falling),
        ),
        pictures=(Picture(0, "pgd10-un-8", 0, 0, 1, 8 / 255, image, 1 - image),),
        points=(
            Points("clean", np.arange(10), LABELS, points),
            Points("pgd10-un-8", np.arange(10), LABELS, 0.5 * points),
        ),
        centers_xy=np.array([[1.0, 0.0], [-0.5, 0.8], [-0.5, -0.8]]),
        plane="centers",
    )
    return replace(evaluation, **changes)
