"""Figure 3b: the paths of attacks through a two-dimensional feature space, for MMC and SCE."""

from functools import partial

import numpy as np
import torch
from torch import Tensor

from maxmahal.attacks import Objective, cross_entropy, own_loss, own_loss_difference
from maxmahal.data import ImageData
from maxmahal.errors import ArgumentError
from maxmahal.models import Classifier, Head
from maxmahal.random import generator
from maxmahal.report.chart import Area, Dots, Drawing, DrawingPart, Key
from maxmahal.train import load_settings
from maxmahal.train.splits import load_splits
from paper.gallery.figure import FigureOptions, FigureRecord, pack, quantise, restore, rounded, square_around, unpack
from paper.gallery.models import (
    AttackPaths,
    PathSettings,
    centers_of,
    features_of,
    fit,
    follow,
    linear_logits,
    zero_gradients,
)
from paper.gallery.plane import Window, haloed
from paper.pages.text import markdown_table

# The colour, the dash and the name of each objective, which the attacker minimises.
OBJECTIVES = {
    "cross-entropy": Key("ink", "cross-entropy, not adaptive", dash=True),
    "un,1": Key("bad", "un,1: −L(z, y)"),
    "un,2": Key("s6", "un,2: L(z, ỹ) − L(z, y)"),
    "tar,1": Key("s2", "tar,1: L(z, yₜ)"),
    "tar,2": Key("s3", "tar,2: L(z, yₜ) − L(z, y)", dash=True),
}
LEGEND = tuple(OBJECTIVES.values())
SCE_OBJECTIVES = ("cross-entropy", "un,2", "tar,1", "tar,2")  # un,1 is cross-entropy itself
LOOKED_AT = (5, 10, 20, 50)
MNIST = ("data.limit=20000", "data.augment=none", "train.epochs=6", "train.lr=0.02", "train.schedule=cosine")


def compute(options: FigureOptions, source: str = "digits") -> FigureRecord:
    """Train both models with two features and follow every objective from the same images."""
    walk = PathSettings(steps=12, step_size=0.025) if options.quick else PathSettings()
    fitted: dict[str, Classifier] = {}
    for name in ("mmc", "sce"):
        settings = load_settings(f"{source}-{name}", _overrides(source, options))
        data = load_splits(settings.data, options.data_dir, "cpu")
        fitted[name.upper()] = fit(settings, data.train)
    test = data.test
    judged = test.first(20 if options.quick else 100)
    shown = _two_inputs(list(fitted.values()), test, options.seed)
    chosen = ImageData.select(test, torch.cat([shown, torch.arange(len(judged))]))
    shift = torch.randint(1, test.num_classes, (len(chosen),), generator=generator("targets", options.seed))
    targets = (chosen.labels + shift) % test.num_classes
    inputs = [
        {"sample": int(shown[place]), "label": int(chosen.labels[place]), "target": int(targets[place])}
        for place in (0, 1)
    ]
    return {
        "data": source,
        "quick": options.quick,
        "seed": options.seed,
        "epsilon": walk.epsilon,
        "step_size": walk.step_size,
        "steps": walk.steps,
        "judged": len(judged),
        "class_names": list(test.class_names),
        "labels": pack(test.labels.numpy().astype(np.uint8)),
        "inputs": inputs,
        "models": [model_record(name, model, test, chosen, targets, walk) for name, model in fitted.items()],
    }


def _overrides(source: str, options: FigureOptions) -> list[str]:
    chosen = ["model.feature_dim=2", f"train.seed={options.seed}", *(MNIST if source == "mnist" else ())]
    return [*chosen, "train.epochs=6"] if options.quick else chosen


def _two_inputs(models: list[Classifier], data: ImageData, seed: int) -> Tensor:
    """Two random images of different classes that every model classifies correctly."""
    order = torch.randperm(len(data), generator=generator("inputs", seed))[:500]
    some = data.select(order)
    right = torch.stack([model(some.float_images()).argmax(dim=1) == some.labels for model in models]).all(dim=0)
    candidates = order[right]
    others = candidates[data.labels[candidates] != data.labels[candidates[:1]]] if len(candidates) else candidates
    if not len(others):
        raise ArgumentError(
            "Both models must classify two images of different classes correctly; train them for longer."
        )
    return torch.stack([candidates[0], others[0]])


def objective_of(name: str, head: Head) -> tuple[Objective, bool]:
    """The objective behind a line's name, and whether it has a target."""
    if name == "cross-entropy":
        return cross_entropy(), False
    return (own_loss(head) if name.endswith("1") else own_loss_difference(head)), name.startswith("tar")


def model_record(
    name: str, model: Classifier, test: ImageData, chosen: ImageData, targets: Tensor, walk: PathSettings
) -> FigureRecord:
    """One model: its features, its regions and the path of every objective; the first two of ``chosen`` are drawn."""
    features = features_of(model, test)
    images, labels = chosen.float_images(), chosen.labels
    paths: dict[str, AttackPaths] = {}
    for each in OBJECTIVES if centers_of(model) is not None else SCE_OBJECTIVES:
        objective, aimed = objective_of(each, model.head)
        paths[each] = follow(model, images, labels, objective, walk, targets if aimed else None)
    truth, aims = labels.numpy()[2:], targets.numpy()[2:]
    weights, bias = linear_logits(model)
    drawn = np.concatenate([followed.features[:, :2].reshape(-1, 2) for followed in paths.values()])
    view = _view(features, drawn)
    centers = centers_of(model)
    right = (features @ weights.T + bias).argmax(axis=1) == test.labels.numpy()
    return {
        "name": name,
        "test_accuracy": round(float(right.mean()), 4),
        "view": view,
        "features": pack(quantise(features, view)),
        "weights": rounded(weights, 5),
        "bias": rounded(bias, 5),
        "centers": None if centers is None else rounded(centers, 4),
        "paths": {each: rounded(got.features[:, :2].transpose(1, 0, 2)) for each, got in paths.items()},
        "predictions": {each: got.predictions[:, :2].T.tolist() for each, got in paths.items()},
        "fooled": {each: rounded((got.predictions[:, 2:] != truth).mean(axis=1)) for each, got in paths.items()},
        "reached": {
            each: rounded((got.predictions[:, 2:] == aims).mean(axis=1))
            for each, got in paths.items()
            if each.startswith("tar")
        },
        "zero_gradients": round(zero_gradients(model, images[2:], labels[2:], cross_entropy()), 4),
    }


def _view(features: np.ndarray, drawn: np.ndarray) -> list[float]:
    """Nearly all features, and the paths as far as they stay near them."""
    inner = square_around(features, share=0.998)
    near = np.clip(drawn, np.array(inner[:2]) - 1.6 * inner[2], np.array(inner[:2]) + 1.6 * inner[2])
    low, high = np.array(inner[:2]) - inner[2], np.array(inner[:2]) + inner[2]
    return square_around(np.concatenate([near, [low, high]]), margin=1.03)


def panels(record: FigureRecord) -> list[Drawing]:
    """One row per model, one column per input."""
    labels = unpack(record["labels"])
    drawings = []
    for model in record["models"]:
        window = Window(model["view"])
        features = restore(unpack(model["features"]), model["view"])
        ground: list[DrawingPart] = [
            *window.regions(np.array(model["weights"]), np.array(model["bias"])),
            *window.cloud(features, labels, 1.2 if len(labels) > 3000 else 2.2, 0.5),
        ]
        names = window.names(_class_places(model, features, labels), record["class_names"])
        if model["centers"] is not None:
            ground += window.crosses(np.array(model["centers"]))
        for place, shown in enumerate(record["inputs"]):
            ways = [part for name in model["paths"] for part in _way(window, model, name, place)]
            start = np.array(next(iter(model["paths"].values()))[place][0])
            title = f"{model['name']}: a {record['class_names'][shown['label']]}"
            title += f", target {record['class_names'][shown['target']]}"
            drawings.append(window.drawing(title, [*ground, *ways, *names, *_star(window, start)]))
    return drawings


def _class_places(model: FigureRecord, features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    if model["centers"] is not None:
        return np.array(model["centers"])
    return np.stack([np.quantile(features[labels == label], 0.5, axis=0) for label in np.unique(labels)])


def _way(window: Window, model: FigureRecord, name: str, place: int) -> list[DrawingPart]:
    points = window.place(np.array(model["paths"][name][place]))
    points = [(min(max(x, 0.0), window.side), min(max(y, 0.0), window.side)) for x, y in points]
    key = OBJECTIVES[name]
    stops: list[DrawingPart] = [Dots(points[::10], key.ink, 2.2)]
    return [
        *haloed(points, key.ink, 2.0, key.dash),
        *stops,
        Dots(points[-1:], "card", 5.5),
        Dots(points[-1:], key.ink, 4.0),
    ]


def _star(window: Window, start: np.ndarray) -> list[DrawingPart]:
    """The clean input, a star as in the paper."""
    x, y = window.place(start)[0]
    turns = np.arange(10) * np.pi / 5 - np.pi / 2

    def corners(radius: float) -> list[tuple[float, float]]:
        lengths = np.where(np.arange(10) % 2 == 0, radius, 0.42 * radius)
        return [(x + float(r * np.cos(t)), y + float(r * np.sin(t))) for r, t in zip(lengths, turns, strict=True)]

    return [Area(corners(11.0), "card"), Area(corners(8.5), "ink")]


def table(record: FigureRecord) -> str:
    """The share of the first test images that each objective breaks, by step."""
    stops = [step for step in LOOKED_AT if step <= record["steps"]]
    rows = []
    for model in record["models"]:
        for name in model["paths"]:
            shares = [f"{100 * model['fooled'][name][step]:.0f}" for step in stops]
            reached = f"{100 * model['reached'][name][-1]:.0f}" if name in model["reached"] else "–"
            rows.append([model["name"], OBJECTIVES[name].text, *shares, reached])
    return markdown_table(["model", "objective", *(f"step {step}" for step in stops), "target reached"], rows, words=2)


compute_mnist = partial(compute, source="mnist")
