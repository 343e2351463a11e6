"""The features of the samples, before and after an attack."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from maxmahal.records.types import Evaluation, Points
from maxmahal.report.chart import CLASSES
from maxmahal.report.layout import ReportedModel, stage_title
from maxmahal.report.sections.samples import class_name

SIDE, _EDGE = 400.0, 20.0
_NAMES = {"class_name": class_name, "stage_title": stage_title}
_MOST = 600  # points per panel: more would hide each other
FeatureWindow = tuple[Float[np.ndarray, " 2"], float]
"""The middle of a square, and half of its side."""


@dataclass(frozen=True)
class ScatterPanel:
    """One scatter plot."""

    stage: str
    dots: list[tuple[list[float], int, int]]
    """Their places, samples and labels."""
    centers: list[list[float]]
    of: int
    """How many samples there are, drawn or not."""


def feature_space_values(models: Sequence[ReportedModel]) -> dict[str, object]:
    """Nothing if no record holds features."""
    (model,) = models
    each = model.evaluation
    panels = [_panel(each, points, bounds_of(each)) for points in each.points]
    return {"model": model, "panels": panels, "colours": CLASSES, "side": SIDE, **_NAMES} if panels else {}


def bounds_of(evaluation: Evaluation) -> FeatureWindow:
    """The middle of everything there is to draw, and half the side of the square around it."""
    clouds = [points.xy for points in evaluation.points]
    if evaluation.centers_xy is not None:
        clouds.append(evaluation.centers_xy)
    every = np.concatenate(clouds).astype(np.float64)
    every = every[np.isfinite(every).all(axis=1)]
    if not len(every):
        return np.zeros(2), 1.0
    low, high = every.min(axis=0), every.max(axis=0)
    return (low + high) / 2, float((high - low).max() / 2) or 1.0


def _panel(evaluation: Evaluation, points: Points, bounds: FeatureWindow) -> ScatterPanel:
    some = np.unique(np.linspace(0, len(points.sample) - 1, min(_MOST, len(points.sample))).astype(int))
    some = some[np.isfinite(points.xy[some]).all(axis=1)]
    places, samples, labels = place_points(points.xy[some], bounds), points.sample[some], points.label[some]
    return ScatterPanel(
        points.stage,
        list(zip(places.tolist(), samples.tolist(), labels.tolist(), strict=True)),
        [] if evaluation.centers_xy is None else place_points(evaluation.centers_xy, bounds).tolist(),
        len(points.sample),
    )


def place_points(xy: Float[np.ndarray, "n 2"], bounds: FeatureWindow) -> Float[np.ndarray, "n 2"]:
    """Where features are in the square drawing."""
    middle, half = bounds
    relative = (xy.astype(np.float64) - middle) / half
    return SIDE / 2 + relative * np.array([1, -1]) * (SIDE / 2 - _EDGE)
