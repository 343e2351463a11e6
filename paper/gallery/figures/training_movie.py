"""Features during training: they cluster under MMC, spread under SCE, and collapse with center loss alone."""

from typing import Any

import numpy as np

from maxmahal.data import ImageData
from maxmahal.models import Classifier
from maxmahal.report.chart import Drawing, DrawingPart, Key, Text
from maxmahal.train import Settings, load_settings
from maxmahal.train.loop import steps_per_epoch
from maxmahal.train.splits import load_splits
from paper.gallery.figure import (
    FigureOptions,
    FigureRecord,
    FigureTable,
    bytes_text,
    pack,
    quantise,
    restore,
    rounded,
    square_around,
    unpack,
)
from paper.gallery.models import centers_of, features_of, fit
from paper.gallery.plane import Window, class_ink

PRESETS = {"MMC": "digits-mmc", "SCE": "digits-sce", "center loss alone": "digits-center-alone"}
EARLY = (0, 1, 2, 3, 5, 7, 10, 14, 18)  # steps: most happens in the first epoch
POINTS = 360


def compute(options: FigureOptions) -> FigureRecord:
    """Train the three models on the same images and record the same test images after some steps."""
    overrides = ["model.feature_dim=2", f"train.seed={options.seed}", f"train.epochs={8 if options.quick else 30}"]
    films = []
    for name, preset in PRESETS.items():
        settings = load_settings(preset, overrides)
        data = load_splits(settings.data, options.data_dir, "cpu")
        shown = data.test.first(120 if options.quick else POINTS)
        per_epoch = steps_per_epoch(data.train, settings.train.batch_size)
        looks = moments(settings.train.epochs, per_epoch)
        films.append(film(name, settings, data.train, shown, looks))
    return {
        "quick": options.quick,
        "seed": options.seed,
        "class_names": list(shown.class_names),
        "labels": pack(shown.labels.numpy().astype(np.uint8)),
        "steps": looks,
        "steps_per_epoch": per_epoch,
        "films": films,
    }


def moments(epochs: int, per_epoch: int) -> list[int]:
    """The recorded steps: many at first, two per epoch for four epochs, then one per epoch."""
    dense = [step for step in EARLY if step < per_epoch]
    halves = [per_epoch * half // 2 for half in range(2, 9)]
    whole = [per_epoch * epoch for epoch in range(1, epochs + 1)]
    most = epochs * per_epoch
    return sorted({step for step in [*dense, *halves, *whole] if step <= most})


def film(name: str, settings: Settings, train: ImageData, shown: ImageData, looks: list[int]) -> FigureRecord:
    """One training, one frame per look."""
    wanted, features, centers = set(looks), list[np.ndarray](), list[np.ndarray]()

    def watch(model: Classifier, step: int) -> None:
        if step in wanted:
            features.append(features_of(model, shown))
            here = centers_of(model)
            if here is not None:
                centers.append(here)

    fit(settings, train, watch)
    every = np.stack(features)
    view = _view(every, np.stack(centers) if centers else None)
    means = [_spread(frame, shown.labels.numpy()) for frame in every]
    still = bool(centers) and all(np.array_equal(each, centers[0]) for each in centers)
    return {
        "name": name,
        "view": view,
        "features": pack(quantise(every, view, np.int8)),
        "centers": [rounded(each) for each in (centers[:1] if still else centers)],
        "within": rounded(np.array([each[0] for each in means]), 6),
        "between": rounded(np.array([each[1] for each in means]), 6),
    }


def _view(features: np.ndarray, centers: np.ndarray | None) -> list[float]:
    """A square around nearly all features of the second half of training and every center.

    Features outside it are drawn on its border: with them inside, nothing else could be seen.
    """
    view = square_around(features[len(features) // 2 :], share=0.995)
    low, high = np.array(view[:2]) - view[2], np.array(view[:2]) + view[2]
    marks = [np.array([low, high])] + ([] if centers is None else [centers.reshape(-1, 2)])
    return square_around(np.concatenate(marks), margin=1.25)


def _spread(features: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """The mean distance of a feature to its class's mean, and of a class's mean to the nearest other."""
    means = np.stack([features[labels == label].mean(axis=0) for label in np.unique(labels)])
    place = np.searchsorted(np.unique(labels), labels)
    within = np.linalg.norm(features - means[place], axis=1).mean()
    gaps = np.linalg.norm(means[:, None] - means[None], axis=2) + np.where(np.eye(len(means)), np.inf, 0)
    return float(within), float(gaps.min(axis=1).mean())


def panels(record: FigureRecord, frame: int | None = None) -> list[Drawing]:
    """One panel per loss, at a frame or at the end."""
    labels = unpack(record["labels"])
    at = frames(record) - 1 if frame is None else frame
    drawings = []
    for each in record["films"]:
        window = Window(each["view"], 340.0)
        points = restore(unpack(each["features"])[at], each["view"])
        parts: list[DrawingPart] = window.cloud(points, labels, 2.4, 0.7)
        if each["centers"]:
            parts += window.crosses(np.array(each["centers"][min(at, len(each["centers"]) - 1)]))
        parts.append(Text(10.0, 22.0, _moment(record, at), "soft", 13.0, halo=True))
        drawings.append(window.drawing(each["name"], parts))
    return drawings


def _moment(record: FigureRecord, at: int) -> str:
    step, per_epoch = record["steps"][at], record["steps_per_epoch"]
    return f"epoch {step / per_epoch:.3g}, step {step}" if step else "before training"


def legend(record: FigureRecord) -> list[Key]:
    """One entry per class."""
    return [Key(class_ink(label), f"{name}") for label, name in enumerate(record["class_names"])]


def frames(record: FigureRecord) -> int:
    """One per recorded step."""
    return len(record["steps"])


def caption(record: FigureRecord) -> str:
    """What is seen."""
    epochs = record["steps"][-1] // record["steps_per_epoch"]
    return (
        f"{len(unpack(record['labels']))} test images of the embedded digits in a network with two features, over "
        f"{epochs} epochs, with more frames where more happens; centers as crosses. Features "
        "outside the window are drawn on its border."
    )


def table(record: FigureRecord) -> FigureTable:
    """Distances within and between the classes, before and after."""
    rows = []
    for each in record["films"]:
        numbers = (each["within"][0], each["within"][-1], each["between"][0], each["between"][-1])
        rows.append([each["name"], *(f"{value:.2g}" for value in numbers)])
    head = ["loss", "to its class mean, before", "after", "between class means, before", "after"]
    return FigureTable(
        "Mean distances in feature space", head, rows, "Between class means: from each to the nearest other."
    )


def player(record: FigureRecord) -> FigureRecord:
    """The same panels for the page's player."""
    out: list[Any] = [
        {
            "title": each["name"],
            "view": each["view"],
            "regions": [],
            "centers": each["centers"],
            "names": [],
            "dots": {"points": bytes_text(unpack(each["features"])), "bits": 8},
            "radius": 2.4,
            "paths": [],
        }
        for each in record["films"]
    ]
    labels = [_moment(record, at) for at in range(frames(record))]
    return {"labels": labels, "rate": 6, "classes": bytes_text(unpack(record["labels"])), "panels": out}
