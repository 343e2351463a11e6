"""Figure 6: the directions of the four adaptive objectives (appendix B.4), and the best one for each goal."""

import math

import numpy as np
import torch
from torch import Tensor

from maxmahal.attacks import Outputs, own_loss, own_loss_difference
from maxmahal.centers import max_mahalanobis_centers
from maxmahal.losses import MMC
from maxmahal.random import generator
from maxmahal.report.chart import Drawing, DrawingPart, Key, Line, Text, cross
from paper.gallery.figure import FigureOptions, FigureRecord, rounded
from paper.gallery.plane import Window, arrow, class_ink, haloed
from paper.pages.text import markdown_table

NORM, SPREAD, THRESHOLD = 10.0, 1.5, 4.0
LABEL, TARGET = 0, 1
STEP = 0.1
FAR = 1.5  # a walk is 1.5 times as long as the distance of two centers, as an attack does not know when to stop
TITLES = {
    "un,1": "un,1: −L(z, y)",
    "un,2": "un,2: L(z, ỹ) − L(z, y)",
    "tar,1": "tar,1: L(z, yₜ)",
    "tar,2": "tar,2: L(z, yₜ) − L(z, y)",
}
NAMES = ("y", "yₜ", "other")
GOALS = {
    "leave": "distance from y's center at the end",
    "misclassify": "path to any wrong class (share)",
    "target": "path to the target (share)",
    "evade": "wrong and not detected at the end",
}
LEGEND = (
    Key("soft", "descent direction"),
    Key("bad", "walks from around the center of y"),
    Key("accent", "no detection inside", dash=True),
)


def compute(options: FigureOptions) -> FigureRecord:
    """Fields on a grid, and walks of unit speed against the gradient from many starts around the true center."""
    head = MMC(max_mahalanobis_centers(3, 2, NORM))
    count = 200 if options.quick else 2000
    draws = generator("figure 6", options.seed)
    starts = head.centers[LABEL] + SPREAD * torch.randn(count, 2, generator=draws)
    starts = starts[head.logits(starts).argmax(dim=1) == LABEL]
    gap = float(torch.linalg.vector_norm(head.centers[LABEL] - head.centers[TARGET]))
    length = FAR * gap
    axis = torch.linspace(-1.45 * NORM, 1.45 * NORM, 13)
    grid = torch.cartesian_prod(axis, axis)
    objectives = {}
    for name in TITLES:
        walks = walk(head, name, starts, length)
        objectives[name] = {
            "field": rounded(direction(head, name, grid).numpy()),
            "walks": rounded(walks[::4, :12].transpose(0, 1).numpy()),
            **outcome(head, walks),
        }
    return {
        "quick": options.quick,
        "seed": options.seed,
        "centers": rounded(head.centers.double().numpy(), 4),
        "spread": SPREAD,
        "threshold": THRESHOLD,
        "length": round(length, 4),
        "step": STEP,
        "starts": len(starts),
        "shortest": round(shortest_way_out(head, starts), 4),
        "grid": rounded(grid.numpy()),
        "objectives": objectives,
        "best": winners(objectives),
    }


def direction(head: MMC, name: str, features: Tensor) -> Tensor:
    """Unit vectors against the gradient of an objective in feature space; zero where the gradient is."""
    asked = features.clone().requires_grad_()
    labels = torch.full((len(features),), LABEL)
    targets = torch.full((len(features),), TARGET) if name.startswith("tar") else None
    objective = own_loss(head) if name.endswith("1") else own_loss_difference(head)
    values = objective(Outputs(head.logits(asked), asked), labels, targets)
    (gradient,) = torch.autograd.grad(values.sum(), asked)
    unit: Tensor = -torch.nn.functional.normalize(gradient, dim=1)
    return unit


def walk(head: MMC, name: str, starts: Tensor, length: float) -> Tensor:
    """The path from every start, (steps + 1, n, 2); tar,1 stops at its target."""
    here, places = starts, [starts]
    for _ in range(math.ceil(length / STEP)):
        way = direction(head, name, here)
        if name == "tar,1":
            # The last step is shorter, or the walk would oscillate around the center.
            left = torch.linalg.vector_norm(head.centers[TARGET] - here, dim=1, keepdim=True)
            way = way * (left / STEP).clamp(max=1.0)
        here = here + STEP * way
        places.append(here)
    return torch.stack(places)


def outcome(head: MMC, walks: Tensor) -> FigureRecord:
    """How soon the walks are misclassified, how far they go, and whether they are detected."""
    labels = head.logits(walks.flatten(0, 1)).argmax(dim=1).reshape(walks.shape[:2])
    nearest = torch.cdist(walks.flatten(0, 1), head.centers).amin(dim=1).reshape(walks.shape[:2])
    hidden = (labels != LABEL) & (nearest <= THRESHOLD)
    away = torch.linalg.vector_norm(walks - head.centers[LABEL], dim=2)
    return {
        "leave": round(float(away[-1].mean()), 4),
        "misclassify": _length_until(labels != LABEL),
        "misclassified": round(float((labels != LABEL).any(dim=0).double().mean()), 4),
        "target": _length_until(labels == TARGET),
        "targeted": round(float((labels == TARGET).any(dim=0).double().mean()), 4),
        "evade": round(float(hidden[-1].double().mean()), 4),
        "evade_at_best": round(float(hidden.any(dim=0).double().mean()), 4),
    }


def _length_until(reached: Tensor) -> float:
    """The mean path length until this happens; the whole length for walks where it never does."""
    steps = torch.where(reached.any(dim=0), reached.int().argmax(dim=0), len(reached) - 1)
    return round(float(steps.double().mean()) * STEP, 4)


def shortest_way_out(head: MMC, starts: Tensor) -> float:
    """The closed form: min over t of (h_y - h_t) / ‖μ_y - μ_t‖, on average over the starts."""
    logits = head.logits(starts)
    gaps = torch.linalg.vector_norm(head.centers - head.centers[LABEL], dim=1)
    ways = (logits[:, LABEL, None] - logits) / gaps
    ways[:, LABEL] = torch.inf
    return float(ways.amin(dim=1).mean())


def winners(objectives: dict[str, FigureRecord]) -> dict[str, str]:
    """The best objective for each goal."""

    def best(goal: str, sign: int) -> str:
        return max(objectives, key=lambda name: sign * float(objectives[name][goal]))

    signs = {"leave": 1, "misclassify": -1, "target": -1, "evade": 1}
    return {goal: best(goal, sign) for goal, sign in signs.items()}


def panels(record: FigureRecord) -> list[Drawing]:
    """One panel per objective."""
    centers = np.array(record["centers"])
    view = [0.0, 0.0, 1.6 * float(np.linalg.norm(centers[0]))]
    return [_panel(record, name, centers, Window(view)) for name in record["objectives"]]


def _panel(record: FigureRecord, name: str, centers: np.ndarray, window: Window) -> Drawing:
    parts: list[DrawingPart] = window.regions(centers, -0.5 * (centers**2).sum(axis=1))
    parts += _detector_rings(window, centers, record["threshold"])
    grid, field = np.array(record["grid"]), np.array(record["objectives"][name]["field"])
    size = 0.42 * float(grid[1, 1] - grid[0, 1])
    for tail, tip in zip(window.place(grid - size * field), window.place(grid + size * field), strict=True):
        parts += arrow(tail, tip, "soft", 1.1)
    for way in record["objectives"][name]["walks"]:
        points = window.place(np.array(way))
        inside = [point for point in points if 0 <= point[0] <= window.side and 0 <= point[1] <= window.side]
        if len(inside) > 1:
            parts.append(Line(inside, "bad", 1.6))
    for label, (x, y) in enumerate(window.place(centers)):
        parts += cross(x, y)
        parts.append(Text(x + 11, y - 9, NAMES[label], class_ink(label), 17.0, halo=True))
    return window.drawing(TITLES[name], parts)


def _detector_rings(window: Window, centers: np.ndarray, radius: float) -> list[DrawingPart]:
    turn = np.linspace(0, 2 * np.pi, 61)
    ring = radius * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return [part for center in centers for part in haloed(window.place(center + ring), "accent", 1.4, dash=True)]


def table(record: FigureRecord) -> str:
    """Goals against objectives; the best of each column is bold."""
    rows = []
    for name, each in record["objectives"].items():
        cells = [
            f"{each['leave']:.1f}",
            f"{each['misclassify']:.2f} ({100 * each['misclassified']:.0f} %)",
            f"{each['target']:.2f} ({100 * each['targeted']:.0f} %)",
            f"{100 * each['evade']:.0f} %",
        ]
        best = [record["best"][goal] == name for goal in GOALS]
        marked = [f"**{cell}**" if bold else cell for cell, bold in zip(cells, best, strict=True)]
        rows.append([TITLES[name], *marked, f"{100 * each['evade_at_best']:.0f} %"])
    return markdown_table(["objective", *GOALS.values(), "at any time"], rows)
