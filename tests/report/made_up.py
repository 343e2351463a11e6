"""Evaluations made up by hand: several models, one unfinished, one masked, one that draws, and names that bite."""

from dataclasses import replace
from typing import Any

import numpy as np
from small_evaluations_helpers import made_up, stage_of

from maxmahal.records.types import (
    Columns,
    Evaluation,
    Finding,
    Picture,
    Points,
    Rating,
    StageRecords,
)

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
EVIL = "<script>window.pwned=1</script> & \"quoted\" 'name' <img src=x onerror=window.pwned=1>"
_PLAN = (
    ("apgd-margin", "APGD-100, margin", "apgd", 0.30),
    ("apgd-cross-entropy", "APGD-100, cross-entropy", "apgd", 0.06),
    ("apgd-margin-targets", "APGD-100, margin to each of 9 classes", "apgd", 0.04),
    ("square", "Square, 5000 queries", "square", 0.01),
)


def columns(
    samples: np.ndarray, right: np.ndarray, share: np.ndarray, distortion: np.ndarray | None = None, told: bool = True
) -> Columns:
    """Rows whose predictions agree with how right they are; labels are a function of the sample."""
    labels = samples % 10
    count = np.full(len(samples), 100 if told else -1)
    return Columns(
        sample=samples,
        label=labels,
        clean_prediction=np.where(right, labels, (labels + 1) % 10),
        prediction=np.where(share >= 0.5, labels, (labels + 3) % 10),
        right_before=right,
        broken=share < 0.5,
        right_share=share.astype(np.float64),
        distortion=np.full(len(samples), 8 / 255) if distortion is None else distortion,
        iterations=count,
        forward=count,
        backward=count,
        queries=count,
    )


def stage(name: str, title: str, kind: str, rows: Columns, **changes: Any) -> StageRecords:
    """A finished stage of the suite that counts, on samples that are still correct."""
    told = bool(len(rows) and rows.forward[0] >= 0)
    total = int(rows.forward.sum()) if told else 0
    facts = {"title": title, "kind": kind, "settings": {"steps": 100, "objective": "margin", "seed": 0}}
    facts |= {"scope": "survivors", "rating": Rating(12.5 + len(rows) / 7, total, total, 0)}
    return stage_of(name, rows, **{**facts, **changes})


def nothing() -> Columns:
    """No rows at all."""
    none = np.zeros(0, dtype=np.int64)
    return columns(none, none.astype(bool), none.astype(np.float64))


def evaluation(
    name: str = "MMC-10", count: int = 500, seed: int = 0, clean: float = 0.92, hard: float = 1.0, draws: bool = False
) -> Evaluation:
    """A plan of a strict suite: each attack breaks its share of those that are left, times ``hard``."""
    rng = np.random.default_rng([seed, len(name), count])
    samples = np.arange(count) * 2 + 7
    right = rng.random(count) < clean
    start = np.where(right, rng.uniform(0.6, 1.0, count) if draws else 1.0, 0.0)
    unmoved = columns(samples, right, start, np.full(count, np.nan))
    stages = [stage("clean", "Clean", "clean", unmoved, scope="all", threat="", counts=False)]
    left = start.copy()
    for stage_name, title, kind, share in _PLAN:
        rows = np.flatnonzero(left >= 0.5)
        falls = rng.random(len(rows)) < share * hard
        after = np.where(falls, rng.uniform(0, 0.4, len(rows)) if draws else 0.0, left[rows])
        stages.append(stage(stage_name, title, kind, columns(samples[rows], right[rows], after)))
        left[rows] = after
    return made_up(
        *stages,
        name=name,
        target=f"runs/{name}",
        data="cifar10",
        suite="strict",
        suite_about="Our best effort",
        model_fingerprint=f"{abs(hash((name, seed))):016x}",
        data_fingerprint=f"cifar10-{count}",
        class_names=CLASSES,
        model={
            "kind": "classifier",
            "parameters": 467_000,
            "loss": "mmc",
            "settings": {},
            "table": "",
            "epoch": 200,
            "stochastic": draws,
            "draws": 20 if draws else 1,
        },
        environment={
            "versions": {"maxmahal": "0.1.0", "torch": "2.11"},
            "device": "cpu",
            "threads": 2,
            "commit": "abc1234",
            "command": f"maxmahal evaluate 'runs/{name}' --suite strict",
            "started": "2026-11-01T10:00:00+00:00",
        },
        findings=calm_findings(seed),
    )


def calm_findings(seed: int = 0) -> tuple[Finding, ...]:
    """Nothing wrong, with both kinds of curves."""
    rng = np.random.default_rng(seed)
    start = 0.9 - 0.1 * rng.random()
    epsilons = [0.0, 2 / 255, 4 / 255, 8 / 255, 16 / 255, 0.18, 0.5]
    steps, restarts = [1, 2, 5, 10, 20, 50, 100], [1, 2, 3, 4, 5]
    return (
        Finding("zero-gradients", "Zero gradients", False, "0 of 100 gradients are zero.", "", (), {"share": 0.0}),
        Finding(
            "epsilon-growth",
            "Growing epsilon",
            False,
            "The accuracy falls to 0.0 % as it should.",
            "",
            (),
            {"epsilons": epsilons, "accuracies": [start * max(0.0, 1 - x / 0.07) for x in epsilons]},
        ),
        Finding(
            "still-falling",
            "Still falling",
            False,
            "The last doubling of steps broke <= 1 % more.",
            "",
            (),
            {
                "steps": steps,
                "accuracy_by_steps": [start * (0.5 + 0.5 / x) for x in steps],
                "restarts": restarts,
                "accuracy_by_restarts": [start * (0.48 + 0.02 / x) for x in restarts],
            },
        ),
    )


def masked(name: str = "Masked") -> Evaluation:
    """Flagged by a check, mended by an attack that breaks every sample."""
    made = evaluation(name, seed=3, hard=0.2)
    clean = made.stage("clean").columns
    rows = np.flatnonzero(clean.right_share >= 0.5)
    zeros = np.zeros(len(rows))
    added = stage(
        "added-scale-free",
        "APGD-100, scale-free",
        "apgd",
        columns(clean.sample[rows], clean.right_before[rows], zeros),
        origin="diagnosis",
        settings={"because": "zero-gradients", "remedy": "scale-free", "steps": 100},
    )
    flagged = Finding(
        "zero-gradients",
        "Zero gradients",
        True,
        "88 % of the gradients are exactly zero.",
        "Attack with an objective that does not saturate.",
        ("scale-free",),
        {"share": 0.88},
    )
    return replace(made, stages=(*made.stages, added), findings=(*made.findings[1:], flagged))


def unfinished(name: str = "Half way") -> Evaluation:
    """Two stages done, one begun, one not begun, one skipped, no findings yet."""
    made = evaluation(name, seed=5)
    third = made.stages[3]
    rows = third.columns
    begun = replace(
        third,
        finished=False,
        planned=len(rows),
        columns=columns(rows.sample[:60], rows.right_before[:60], rows.right_share[:60]),
    )
    later = replace(made.stages[4], finished=False, planned=0, columns=nothing(), rating=Rating(0.0, 0, 0, 0))
    skipped = stage("nearest", "APGD-100, nearest center", "apgd", nothing(), skipped="The loss <sce> has no centers.")
    return replace(made, stages=(*made.stages[:3], skipped, begun, later), findings=(), finished=False)


def not_begun(name: str = "Not begun") -> Evaluation:
    """Not even the clean images of one chunk."""
    made = evaluation(name)
    empty = tuple(replace(each, columns=nothing(), finished=False, planned=0) for each in made.stages)
    return replace(made, stages=empty, findings=(), finished=False)


def with_extras(made: Evaluation, others: tuple[str, ...] = (), seed: int = 0, classes: int = 10) -> Evaluation:
    """Training, transfer from other models and itself, C&W, pictures of several sizes, and points with centers."""
    rng = np.random.default_rng(seed)
    clean = made.stage("clean").columns
    extra = []
    for source in others:
        share = np.where(rng.random(len(clean)) < (0.5 if source == made.name else 0.2), 0.0, clean.right_share)
        extra.append(
            stage(
                f"transfer-{source}",
                f"MIM-10 crafted on {source}",
                "transfer",
                columns(clean.sample, clean.right_before, share),
                scope="all",
                origin="transfer",
                settings={"source": source, "steps": 10},
            )
        )
    for name, title, mean in (
        ("cw-tar", "C&W targeted, distortion", 0.6),
        ("cw-un", "C&W untargeted, distortion", 0.3),
    ):
        distances = np.where(clean.right_before, rng.gamma(4, mean / 4, len(clean)), 0.0)
        extra.append(
            stage(
                name,
                title,
                "carlini",
                columns(clean.sample, clean.right_before, np.zeros(len(clean)), distances, told=False),
                scope="all",
                threat="",
                counts=False,
                settings={"steps": 1000},
            )
        )
    training = [
        {
            "epoch": epoch,
            "train_seconds": (12.0 + 3 * seed) * epoch,
            "test_accuracy": 1 - 0.5 / epoch**0.7 - 0.04 - 0.02 * seed,
            "train_loss": 1 / epoch,
        }
        for epoch in range(1, 61)
    ]
    stages = (*made.stages, *extra)
    return replace(
        made,
        stages=stages,
        training=training,
        pictures=pictures(seed),
        points=_points(rng, clean),
        centers_xy=_ring(10),
        plane="centers",
    )


def pictures(seed: int = 0) -> tuple[Picture, ...]:
    """Greyscale 8x8, RGB 32x32 and RGB 64x64, with perturbations of at most 8/255."""
    rng = np.random.default_rng(seed)
    made = []
    for number, (channels, side) in enumerate([(3, 32), (1, 8), (3, 64), (1, 28)]):
        across = np.linspace(0, 1, side)
        waves = [np.outer(across, np.sin(3 * across + phase)) for phase in range(channels)]
        clean = np.clip(np.stack(waves) * 0.8 + 0.1, 0, 1).astype(np.float32)
        moved = clean + rng.choice([-8 / 255, 8 / 255], clean.shape).astype(np.float32)
        made.append(
            Picture(
                7 + 2 * number,
                "apgd-margin",
                number,
                number,
                (number + 3) % 10,
                8 / 255,
                clean,
                np.clip(moved, 0, 1).astype(np.float32),
            )
        )
    return tuple(made)


def _ring(count: int) -> np.ndarray:
    angles = np.linspace(0, 2 * np.pi, count, endpoint=False)
    return 10 * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _points(rng: np.random.Generator, clean: Columns) -> tuple[Points, ...]:
    centers = _ring(10)
    made = []
    for stage_name, noise, pull in (("clean", 0.9, 1.0), ("apgd-margin", 1.6, 0.5), ("square", 1.2, 0.8)):
        xy = centers[clean.label] * pull + rng.normal(0, noise, (len(clean), 2))
        made.append(Points(stage_name, clean.sample, clean.label, xy))
    return tuple(made)


def everything() -> list[Evaluation]:
    """Five models in one group, one of them evil by name, and one on other data."""
    names = ("MMC-10", EVIL)
    train = {"train": {"epochs": 200, "seed": 0}}
    mmc = with_extras(evaluation("MMC-10", hard=1.0), names, 1)
    evil = with_extras(evaluation(EVIL, seed=2, hard=1.6), names, 2)
    mmc = replace(mmc, model={**mmc.model, "settings": train, "table": "Table 1, MMC-10"})
    twin = evaluation("MMC-10, seed 1", seed=8, hard=1.1)
    twin = replace(twin, model={**twin.model, "settings": {"train": {"epochs": 200, "seed": 1}}})
    other = replace(evaluation("Randomised", count=300, seed=4, draws=True), data="digits", class_names=())
    return [mmc, evil, twin, masked(), unfinished(), other]
