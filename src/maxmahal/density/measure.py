"""Measures of a trained model's features: losses, spread, angles, densities and runners-up, as one record."""

import copy
import math
from statistics import fmean
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.data import ImageData
from maxmahal.density.contours import CenterSpheres, Contours, head_centers, head_contours, log_ball_volume
from maxmahal.errors import ArgumentError
from maxmahal.models import Classifier, Head
from maxmahal.models.predict import eval_mode, map_batches

DensityRecord = dict[str, Any]
"""Measured values that can be written as JSON."""
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
_SHELL_SAMPLES = 40  # in the shell at a quantile: its density has a relative error of about 1/6
_HALF_BANDS = (0.005, 0.05)  # but a shell holds at least 1 % and at most 10 % of its class
_BINS = 24
_LEAST = 1e-12  # a smaller softmax loss is 0 up to rounding
_NEIGHBOURS = 5
_QUERIES = 500  # per class: enough for a median


def measure_model(model: Classifier, data: ImageData) -> DensityRecord:
    """Everything about one model's features of these images; lengths are in the features' own units."""
    if data.num_classes != model.head.num_classes:
        raise ArgumentError(
            f"The model has {model.head.num_classes} classes and {data.name} has {data.num_classes}; "
            "choose the data that it was trained on."
        )
    with eval_mode(model):
        features = map_batches(model.features, data).cpu().double()
    if not bool(features.isfinite().all()):
        raise ArgumentError(
            f"The model's features of {data.name} hold NaN or infinity: it has diverged. Train it again."
        )
    head = copy.deepcopy(model.head).cpu().double()
    return measure_features(head, features, data.labels.cpu())


def measure_features(head: Head, features: Float[Tensor, "n d"], labels: Int[Tensor, " n"]) -> DensityRecord:
    """The same for given features; ``head`` in float64, on the CPU."""
    with torch.no_grad():
        losses, logits = head.per_sample(features, labels), head.logits(features)
    second = runners_up(logits, labels)
    present = [label for label in range(head.num_classes) if int((labels == label).sum()) > 1]
    if len(present) < 2:
        raise ArgumentError(
            f"At least two classes need two images or more; only {len(present)} of {head.num_classes} have them. "
            "Take more images."
        )
    means = torch.stack([features[labels == label].mean(dim=0) for label in present])
    unit = float(torch.pdist(means).mean())
    centers, classes = head_centers(head), head.num_classes
    pairs = torch.bincount(labels * classes + second, minlength=classes**2).reshape(classes, classes)  # N_{k,k̃}
    return {
        "loss": type(head).__name__,
        "samples": len(labels),
        "dim": features.shape[1],
        "classes": classes,
        "accuracy": float((logits.argmax(dim=1) == labels).double().mean()),
        "losses": loss_histogram(losses),
        "spread": {
            "to_mean": _mean_distance(features, labels, dict(zip(present, means, strict=True))),
            "to_center": None if centers is None else _mean_distance(features, labels, dict(enumerate(centers))),
            "between_means": unit,
        },
        "angles": {"means": angles(means), "centers": None if centers is None else angles(centers[present])},
        "shells": shell_densities(head, losses, labels, second, unit),
        "neighbours": _neighbour_densities(features, labels, present, unit),
        "runners_up": {"class_counts": pairs.sum(dim=1).tolist(), "pair_counts": pairs.tolist()},
    }


def runners_up(logits: Float[Tensor, "n l"], labels: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """ỹ: the class with the highest logit among the wrong ones."""
    return logits.scatter(1, labels[:, None], -torch.inf).argmax(dim=1)


def log_neighbour_density(
    features: Float[Tensor, "n d"], neighbours: int = 5, *, queries: int | None = None
) -> Float[Tensor, " m"]:
    """Eq. 2 with ΔB the ball to a sample's k-th nearest neighbour: log(k / Vol) of the first ``queries`` features."""
    if not 1 <= neighbours < len(features):
        raise ArgumentError(
            f"neighbours must lie in 1..{len(features) - 1} because there are {len(features)} features; "
            f"got {neighbours}."
        )
    exact = features.to(torch.float64)
    rows = torch.split(exact[:queries], max(1, 4_000_000 // len(exact)))
    # Not by one matrix product: its rounding error is larger than the distances of features that nearly coincide.
    kind = "donot_use_mm_for_euclid_dist"
    reaches = [torch.cdist(part, exact, compute_mode=kind).kthvalue(neighbours + 1, dim=1).values for part in rows]
    return math.log(neighbours) - log_ball_volume(features.shape[1], torch.cat(reaches))


def loss_histogram(losses: Float[Tensor, " n"]) -> DensityRecord:
    """p(C): counts between edges that are even in log C, and quantiles; losses of (nearly) 0 are counted separately."""
    seen = losses[losses > _LEAST]
    places = torch.tensor(QUANTILES, dtype=losses.dtype)
    record: DensityRecord = {"quantiles": dict(zip(map(str, QUANTILES), losses.quantile(places).tolist(), strict=True))}
    record |= {"mean": float(losses.mean()), "none": len(losses) - len(seen), "edges": [], "counts": [], "density": []}
    if not len(seen):
        return record
    low, high = math.log(float(seen.min())), math.log(float(seen.max()))
    edges = torch.linspace(low - 1e-9, max(high, low + 1e-6) + 1e-9, _BINS + 1, dtype=torch.float64).exp()
    counts = torch.bincount(torch.bucketize(seen.double(), edges[1:-1], right=True), minlength=_BINS)
    density = counts / (len(losses) * edges.diff())
    return record | {"edges": edges.tolist(), "counts": counts.tolist(), "density": density.tolist()}


def angles(points: Float[Tensor, "l d"]) -> DensityRecord:
    """Between any two points, seen from the mean of all, in degrees."""
    away = points.double() - points.double().mean(dim=0)
    directions = torch.nn.functional.normalize(away, dim=1)
    first, second = torch.triu_indices(len(points), len(points), offset=1)
    found = torch.rad2deg((directions @ directions.T)[first, second].clamp(-1, 1).acos())
    return {"smallest": float(found.min()), "mean": float(found.mean()), "largest": float(found.max())}


def shell_densities(
    head: Head, losses: Float[Tensor, " n"], labels: Int[Tensor, " n"], second: Int[Tensor, " n"], unit: float
) -> DensityRecord:
    """Eq. 2 between exact contours around each quantile of a class's losses, and the classes' mean.

    Where contours depend on the runner-up, a class is its largest D_{k,k̃}. ``unit_free`` takes the mean distance
    between class means as the unit of length.
    """
    rows, present = [], sorted(set(labels.tolist()))
    for label in present:
        mine = labels == label
        against = int(second[mine].mode().values)
        contours = head_contours(head, label, against)
        if contours is not None:
            pair = mine if isinstance(contours, CenterSpheres) else mine & (second == against)
            rows.append({"label": label, "runner_up": against} | _shells(contours, losses[pair]))
    found = [[row["log_density"][place] for row in rows] for place in range(len(QUANTILES))]
    known = [[value for value in values if value is not None] for values in found]
    means = [fmean(values) if values else None for values in known]
    why_none = "no closed form" if head.quadratic_logits is None else "contours are planes"
    return {
        "why_none": "" if len(rows) == len(present) else why_none,
        "quantiles": list(QUANTILES),
        "log_density": means,
        "unit_free": [_unit_free(value, head.feature_dim, unit) for value in means],
        "classes": rows,
    }


def _shells(contours: Contours, losses: Float[Tensor, " n"]) -> DensityRecord:
    places = torch.tensor(QUANTILES, dtype=torch.float64)
    half = min(max(0.5 * _SHELL_SAMPLES / max(len(losses), 1), _HALF_BANDS[0]), _HALF_BANDS[1])
    low, high = (losses.double().quantile(places + step) for step in (-half, half))
    result: DensityRecord = {"samples": len(losses), "low": low.tolist(), "high": high.tolist(), "log_density": []}
    for one, other in zip(low, high, strict=True):
        inside = int(((losses >= one) & (losses <= other)).sum())
        closed = bool(contours.squared_radius(torch.stack([one, other])).max() > 0) and bool(one < other)
        volume = float(contours.log_shell_volume(one, other)) if closed else -math.inf
        result["log_density"].append(math.log(inside) - volume if inside and math.isfinite(volume) else None)
    return result


def _neighbour_densities(
    features: Float[Tensor, "n d"], labels: Int[Tensor, " n"], present: list[int], unit: float
) -> DensityRecord:
    each = [
        log_neighbour_density(features[labels == label], _NEIGHBOURS, queries=_QUERIES)
        for label in present
        if int((labels == label).sum()) > _NEIGHBOURS
    ]
    median = float(torch.cat(each).median()) if each else math.inf
    found = median if math.isfinite(median) else None  # features that coincide have no finite density
    return {"neighbours": _NEIGHBOURS, "log_density": found, "unit_free": _unit_free(found, features.shape[1], unit)}


def _unit_free(log_density: float | None, dim: int, unit: float) -> float | None:
    """The density with ``unit`` as the unit of length; None for a model whose class means all coincide."""
    return None if log_density is None or unit <= 0 else log_density + dim * math.log(unit)


def _mean_distance(features: Float[Tensor, "n d"], labels: Int[Tensor, " n"], points: dict[int, Tensor]) -> float:
    """From each sample to its own class's point, first averaged within a class."""
    means = [
        torch.linalg.vector_norm(features[labels == label] - point.double(), dim=1).mean()
        for label, point in points.items()
        if bool((labels == label).any())
    ]
    return float(torch.stack(means).mean())
