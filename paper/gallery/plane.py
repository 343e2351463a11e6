"""A square window on a plane of features: decision regions, features, centers, paths."""

import math
from collections.abc import Sequence

import numpy as np

from maxmahal.report.chart import CLASSES, Area, Dots, Drawing, DrawingPart, Line, Point, Text, cross

SIDE = 400.0


class Window:
    """From feature space to a square drawing; ``view`` is the middle (x, y) and half the side."""

    def __init__(self, view: Sequence[float], side: float = SIDE) -> None:
        self.view, self.side = list(view), side

    def place(self, points: np.ndarray) -> list[Point]:
        """Where points (n, 2) are drawn; y grows upwards in feature space and downwards in a drawing."""
        relative = (np.asarray(points, dtype=np.float64).reshape(-1, 2) - self.view[:2]) / self.view[2]
        placed = self.side / 2 * (1 + relative * np.array([1, -1]))
        return [(float(x), float(y)) for x, y in placed]

    def drawing(self, title: str, parts: list[DrawingPart]) -> Drawing:
        """The parts in a frame."""
        s = self.side
        frame = Line([(0.0, 0.0), (s, 0.0), (s, s), (0.0, s), (0.0, 0.0)], "line", 1.0)
        return Drawing(title, s, s, [*parts, frame])

    def cloud(
        self, points: np.ndarray, labels: np.ndarray, radius: float = 1.6, opacity: float = 0.55
    ) -> list[DrawingPart]:
        """Features in the colours of their classes; those outside the window are left out."""
        inside = (np.abs(points - np.array(self.view[:2])) <= self.view[2] * 1.001).all(axis=1)
        return [
            Dots(self.place(points[inside & (labels == label)]), class_ink(int(label)), radius, opacity)
            for label in np.unique(labels)
            if (inside & (labels == label)).any()
        ]

    def regions(self, weights: np.ndarray, bias: np.ndarray, opacity: float = 0.1) -> list[DrawingPart]:
        """The decision region of each class, in its colour."""
        parts: list[DrawingPart] = []
        for label, corners in enumerate(decision_regions(weights, bias, self.view)):
            if len(corners) >= 3:
                around = self.place(corners)
                parts.append(Area(around, class_ink(label), opacity))
                parts.append(Line([*around, around[0]], "soft", 0.7, opacity=0.5))
        return parts

    def crosses(self, centers: np.ndarray) -> list[DrawingPart]:
        """An x at every center inside the window."""
        return [part for x, y in self.place(centers) if self._holds(x, y) for part in cross(x, y)]

    def names(self, places: np.ndarray, names: Sequence[str]) -> list[DrawingPart]:
        """The name of each class beside its place, on the outer side but inside the window."""
        middle, parts = np.array(self.view[:2]), list[DrawingPart]()
        for place, name in zip(places, names, strict=True):
            away = np.asarray(place, dtype=np.float64) - middle
            length = float(np.linalg.norm(away)) or 1.0
            x, y = self.place(place + away / length * 0.1 * self.view[2])[0]
            inside = (min(max(x, 10.0), self.side - 10.0), min(max(y, 12.0), self.side - 8.0))
            parts.append(Text(inside[0], inside[1] + 5, name, "ink", 14.0, anchor="middle", halo=True))
        return parts

    def _holds(self, x: float, y: float) -> bool:
        return 0 <= x <= self.side and 0 <= y <= self.side


def class_ink(label: int) -> str:
    """The colour of a class; with more than ten classes, colours repeat."""
    return f"c{label % CLASSES}"


def decision_regions(weights: np.ndarray, bias: np.ndarray, view: Sequence[float]) -> list[np.ndarray]:
    """The corners of the part of the window in which each class has the largest w·z + b; empty if it never has.

    Heads with centers fit in: -½‖z - μ‖² is μ·z - ½‖μ‖² and a term that all classes share.
    """
    x, y, half = view
    window = np.array([[x - half, y - half], [x + half, y - half], [x + half, y + half], [x - half, y + half]])
    found = []
    for label in range(len(weights)):
        corners = window
        for other in range(len(weights)):
            if other != label and len(corners):
                corners = _clip(corners, weights[label] - weights[other], float(bias[label] - bias[other]))
        found.append(corners)
    return found


def _clip(corners: np.ndarray, normal: np.ndarray, offset: float) -> np.ndarray:
    """The part of a convex polygon where normal·z + offset >= 0."""
    heights = corners @ normal + offset
    kept: list[np.ndarray] = []
    for here in range(len(corners)):
        there = (here + 1) % len(corners)
        if heights[here] >= 0:
            kept.append(corners[here])
        if (heights[here] >= 0) != (heights[there] >= 0):
            share = heights[here] / (heights[here] - heights[there])
            kept.append(corners[here] + share * (corners[there] - corners[here]))
    return np.array(kept) if len(kept) >= 3 else np.zeros((0, 2))


def haloed(points: Sequence[Point], ink: str, width: float = 2.0, dash: bool = False) -> list[DrawingPart]:
    """A line that stays visible on top of others: a wider one in the background's colour is below it."""
    return [Line(points, "card", width + 2.5), Line(points, ink, width, dash)]


def arrow(start: Point, end: Point, ink: str, width: float = 1.3, head: float = 4.5) -> list[DrawingPart]:
    """A line with a head at its end."""
    length = math.dist(start, end)
    if length < 1e-9:
        return [Dots([start], ink, width)]
    ux, uy = (end[0] - start[0]) / length, (end[1] - start[1]) / length
    foot, side = (end[0] - head * ux, end[1] - head * uy), 0.55 * head
    tip = [end, (foot[0] - side * uy, foot[1] + side * ux), (foot[0] + side * uy, foot[1] - side * ux)]
    return [Line([start, foot], ink, width), Area(tip, ink)]
