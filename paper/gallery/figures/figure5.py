"""Figure 5: Max-Mahalanobis centers of two, three and four classes."""

from itertools import combinations

import numpy as np
import torch

from maxmahal.centers import max_mahalanobis_centers
from maxmahal.report.chart import Area, Dots, Drawing, DrawingPart, Line, Point, Text
from paper.gallery.figure import FigureOptions, FigureRecord, rounded
from paper.gallery.plane import class_ink
from paper.pages.text import markdown_table

SIDE, NORM = 300.0, 10.0
SHAPES = {2: "a segment", 3: "a triangle", 4: "a tetrahedron"}
TURN = (0.5, 0.42)  # rotation of the still: about the vertical, then towards the reader


def compute(options: FigureOptions) -> FigureRecord:
    """The centers of L classes in L - 1 dimensions, where the paper's algorithm is exact."""
    cases = []
    for classes in SHAPES:
        centers = max_mahalanobis_centers(classes, classes - 1, NORM, exact=True, dtype=torch.float64).numpy()
        unit = centers / NORM
        cosines = [float(unit[i] @ unit[j]) for i, j in combinations(range(classes), 2)]
        distances = [float(np.linalg.norm(centers[i] - centers[j])) for i, j in combinations(range(classes), 2)]
        cases.append(
            {
                "classes": classes,
                "centers": rounded(centers, 6),
                "cosine": round(max(cosines), 6),
                "distance": round(min(distances), 6),
            }
        )
    return {"quick": options.quick, "norm": NORM, "cases": cases}


def in_space(centers: np.ndarray) -> np.ndarray:
    """Centers of any of the cases as points of three dimensions."""
    return np.pad(centers, ((0, 0), (0, 3 - centers.shape[1])))


def turned(points: np.ndarray, about: float, towards: float) -> np.ndarray:
    """Points after a turn about the vertical axis and one about the horizontal; the third coordinate is depth."""
    c, s = np.cos(about), np.sin(about)
    across = np.stack([c * points[:, 0] + s * points[:, 2], points[:, 1], -s * points[:, 0] + c * points[:, 2]], axis=1)
    c, s = np.cos(towards), np.sin(towards)
    x, y, z = across.T
    rotated: np.ndarray = np.stack([x, c * y - s * z, s * y + c * z], axis=1)
    return rotated


def hidden(points: np.ndarray, i: int, j: int) -> bool:
    """Whether an edge of a tetrahedron lies behind it: both faces that share it are turned away from the reader."""
    k, m = (place for place in range(4) if place not in (i, j))
    return not any(_faces_reader(points, (i, j, third), other) for third, other in ((k, m), (m, k)))


def _faces_reader(points: np.ndarray, face: tuple[int, int, int], other: int) -> bool:
    a, b, c = points[list(face)]
    normal = np.cross(b - a, c - a)
    outward = normal if normal @ (a - points[other]) > 0 else -normal
    return bool(outward[2] > 0)


def panels(record: FigureRecord) -> list[Drawing]:
    """One panel per number of classes."""
    return [_panel(case, record["norm"]) for case in record["cases"]]


def _panel(case: FigureRecord, norm: float) -> Drawing:
    centers = np.array(case["centers"])
    flat = centers.shape[1] < 3
    points = in_space(centers) / norm
    points = points if flat else turned(points, *TURN)
    scale = 0.36 * SIDE

    def place(point: np.ndarray) -> Point:
        return SIDE / 2 + float(point[0]) * scale, SIDE / 2 - float(point[1]) * scale

    origin = (SIDE / 2, SIDE / 2)
    around = [(SIDE / 2 + scale * np.cos(t), SIDE / 2 + scale * np.sin(t)) for t in np.linspace(0, 2 * np.pi, 73)]
    parts: list[DrawingPart] = [Line([(float(x), float(y)) for x, y in around], "line", 1.5)]
    if not flat:
        level = np.stack(
            [np.cos(np.linspace(0, 2 * np.pi, 73)), np.zeros(73), np.sin(np.linspace(0, 2 * np.pi, 73))], 1
        )
        parts.append(Line([place(each) for each in turned(level, *TURN)], "line", 1.0, dash=True))
    order = np.argsort(points[:, 2])
    if len(points) >= 3:
        parts += [
            Area([place(points[k]) for k in face], "accent", 0.07) for face in combinations(range(len(points)), 3)
        ]
    for i, j in combinations(range(len(points)), 2):
        behind = not flat and hidden(points, i, j)
        parts.append(Line([place(points[i]), place(points[j])], "accent", 1.4 if behind else 2.2, behind))
    parts += [Line([origin, place(points[k])], "soft", 1.0, dash=True) for k in order]
    parts.append(Dots([origin], "soft", 3.0))
    for k in order:
        x, y = place(points[k])
        near = 0.5 * (1 + float(points[k, 2]))
        parts.append(Dots([(x, y)], class_ink(int(k)), 7.5 if flat else 6.0 + 4.0 * near))
        dx, dy = float(points[k, 0]), -float(points[k, 1])
        length = max((dx * dx + dy * dy) ** 0.5, 0.2)
        x, y = x + 22 * dx / length, y + 22 * dy / length + 5
        parts.append(Text(x, y, f"μ{'₁₂₃₄'[k]}", "ink", 15.0, anchor="middle", halo=True))
    return Drawing(f"L = {case['classes']}: {SHAPES[case['classes']]}", SIDE, SIDE, parts)


def table(record: FigureRecord) -> str:
    """How far apart the centers are."""
    rows = [
        [
            f"{case['classes']}",
            f"{case['classes'] - 1}",
            f"{case['cosine']:.4f}".replace("-", "−"),
            f"{case['distance']:.3f}",
        ]
        for case in record["cases"]
    ]
    return markdown_table(["classes L", "dimensions", "every cosine, −1/(L−1)", "every distance"], rows)
