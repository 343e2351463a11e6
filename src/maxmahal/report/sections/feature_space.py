"""The features of the samples, before and after an attack."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from markupsafe import Markup

from maxmahal.records.types import Evaluation, Points
from maxmahal.report.chart import CLASSES, element, picture
from maxmahal.report.layout import ReportedModel, Section, render, stage_title
from maxmahal.report.sections.gallery import class_name

SIDE, _EDGE = 400.0, 20.0
_MOST = 600  # points per panel: more would hide each other
FeatureWindow = tuple[Float[np.ndarray, " 2"], float]
"""The middle of a square, and half of its side."""


@dataclass(frozen=True)
class ScatterPanel:
    """One scatter plot."""

    stage: str
    title: str
    drawing: Markup
    shown: int
    of: int


def feature_space_section(models: Sequence[ReportedModel]) -> Section | None:
    """None if no record holds features."""
    spaces = [(model, _panels(model.evaluation)) for model in models if model.evaluation.points]
    if not spaces:
        return None
    body = render("sections/feature_space.html.j2", spaces=spaces, colours=CLASSES)
    return Section("features", "Feature space", "Features", body)


def _panels(evaluation: Evaluation) -> list[ScatterPanel]:
    bounds = bounds_of(evaluation)
    return [_panel(evaluation, points, bounds) for points in evaluation.points]


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
    places = place_points(points.xy[some], bounds)
    dots = [
        element(
            "path",
            class_=f"dot c{label % CLASSES}",
            d=f"M{x:.1f} {y:.1f}h0",
            data_tip=f"sample {sample}, {class_name(evaluation, int(label))}",
        )
        for (x, y), sample, label in zip(places, points.sample[some], points.label[some], strict=True)
    ]
    crosses = []
    if evaluation.centers_xy is not None:
        for label, (x, y) in enumerate(place_points(evaluation.centers_xy, bounds)):
            tip = f"center of {class_name(evaluation, label)}"
            cross = f"M{x - 4:.1f} {y - 4:.1f}l8 8m0-8l-8 8"
            crosses.append(element("path", class_="cross", d=cross, data_tip=tip))
    title = stage_title(evaluation, points.stage)
    drawing = picture(f"Features: {title}", [*dots, *crosses], SIDE, SIDE, "space")
    return ScatterPanel(points.stage, title, drawing, len(some), len(points.sample))


def place_points(xy: Float[np.ndarray, "n 2"], bounds: FeatureWindow) -> Float[np.ndarray, "n 2"]:
    """Where features are in the square drawing."""
    middle, half = bounds
    relative = (xy.astype(np.float64) - middle) / half
    placed: np.ndarray = SIDE / 2 + relative * np.array([1, -1]) * (SIDE / 2 - _EDGE)
    return placed
