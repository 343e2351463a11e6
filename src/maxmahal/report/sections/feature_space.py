"""Where the samples lie in feature space, before and after an attack."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from markupsafe import Markup

from maxmahal.records.types import Evaluation, Points
from maxmahal.records.verdict import CLEAN
from maxmahal.report.render import Section, render
from maxmahal.report.sections.gallery import class_name
from maxmahal.report.subjects import Subject
from maxmahal.report.svg import element, picture

_SIDE, _EDGE = 400.0, 20.0
_MOST = 600  # points a panel: more only hide each other
_NAMED = 20
COLOURS = 10
PLANES = {
    "features": "The features have two dimensions; this is feature space itself.",
    "circle of centers": "A projection in which the class centers, all equally far apart, form a circle.",
    "centers": "The plane through feature space along which the class centers spread most.",
    "class means": "The plane through feature space along which the means of the classes spread most.",
}


@dataclass(frozen=True)
class Panel:
    """One scatter."""

    title: str
    drawing: Markup
    shown: int
    of: int


@dataclass(frozen=True)
class Space:
    """One model's feature space."""

    subject: Subject
    clean: Panel | None
    attacked: tuple[Panel, ...]
    plane: str
    classes: tuple[tuple[int, str], ...]
    """Colour and name; empty where there are too many to tell apart."""
    centers: bool


def feature_space_section(subjects: Sequence[Subject]) -> Section | None:
    """None where no record kept its points."""
    spaces = [_space(subject) for subject in subjects if subject.evaluation.points]
    if not spaces:
        return None
    body = render("sections/feature_space.html.j2", spaces=spaces)
    return Section("features", "Feature space", "Features", body)


def _space(subject: Subject) -> Space:
    each = subject.evaluation
    bounds = _bounds(each)
    panels = [(points.stage, _panel(each, points, bounds)) for points in each.points]
    names = tuple((label % COLOURS, name) for label, name in enumerate(each.class_names))
    return Space(
        subject,
        next((panel for stage, panel in panels if stage == CLEAN), None),
        tuple(panel for stage, panel in panels if stage != CLEAN),
        PLANES.get(each.plane, each.plane),
        names if len(names) <= _NAMED else (),
        each.centers_xy is not None,
    )


def _bounds(evaluation: Evaluation) -> tuple[Float[np.ndarray, " 2"], float]:
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


def _panel(evaluation: Evaluation, points: Points, bounds: tuple[Float[np.ndarray, " 2"], float]) -> Panel:
    some = np.unique(np.linspace(0, len(points.sample) - 1, min(_MOST, len(points.sample))).astype(int))
    some = some[np.isfinite(points.xy[some]).all(axis=1)]
    places = _place(points.xy[some], bounds)
    dots = [
        element(
            "path",
            class_=f"dot c{label % COLOURS}",
            d=f"M{x:.1f} {y:.1f}h0",
            data_tip=f"sample {sample}, {class_name(evaluation, int(label))}",
        )
        for (x, y), sample, label in zip(places, points.sample[some], points.label[some], strict=True)
    ]
    crosses = []
    if evaluation.centers_xy is not None:
        for label, (x, y) in enumerate(_place(evaluation.centers_xy, bounds)):
            tip = f"center of {class_name(evaluation, label)}"
            cross = f"M{x - 4:.1f} {y - 4:.1f}l8 8m0-8l-8 8"
            crosses.append(element("path", class_="cross", d=cross, data_tip=tip))
    title = next((stage.title for stage in evaluation.stages if stage.name == points.stage), points.stage)
    drawing = picture(f"Features: {title}", [*dots, *crosses], _SIDE, _SIDE, "space")
    return Panel(title, drawing, len(some), len(points.sample))


def _place(xy: Float[np.ndarray, "n 2"], bounds: tuple[Float[np.ndarray, " 2"], float]) -> Float[np.ndarray, "n 2"]:
    middle, half = bounds
    relative = (xy.astype(np.float64) - middle) / half
    placed: np.ndarray = _SIDE / 2 + relative * np.array([1, -1]) * (_SIDE / 2 - _EDGE)
    return placed
