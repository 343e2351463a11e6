"""Figures 1 and 2: level sets of losses on a plane of features, and how samples move under gradient descent.

Three classes in two dimensions, as in the paper. Features move freely, without a network: the figures show what each
loss favours, not what a network can reach.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from maxmahal.centers import max_mahalanobis_centers
from maxmahal.density import log_neighbour_density
from maxmahal.losses.center import center_loss, updated_centers
from maxmahal.losses.gsce import gsce_loss
from maxmahal.losses.mmc import mmc_loss
from maxmahal.losses.softmax import sce_loss
from maxmahal.random import generator
from maxmahal.report.chart import Drawing, DrawingPart, Key, Line
from paper.gallery.figure import FigureOptions, FigureRecord, rounded
from paper.gallery.plane import Window, arrow, class_ink

_Loss = Callable[[Tensor, Tensor], Tensor]
CLASSES = 3
_NORM = 2.0
_SIDE = 320.0
_PRECISIONS = (0.3, 0.6, 0.9)  # of g-SCE: unequal, so that the contours of class 0 are closed and its loss can reach 0
_PULL = 0.1  # the weight of the center loss
_RATE = 0.1  # how far its centers follow the features at each step
_LEAST = 1e-9  # a smaller softmax loss is mostly rounding error
_PER_CLASS = 60  # samples
_QUANTILES = (0.02, 0.08, 0.18, 0.32, 0.5, 0.7, 0.9)  # of the loss, at which level sets are drawn
LEGEND = (*(Key(class_ink(label), f"class {label}") for label in range(CLASSES)), Key("s7", "equal loss of class 0"))


@dataclass
class PlaneLoss:
    """A loss on the plane; its centers, if it has any, move only if ``follows``."""

    name: str
    centers: Tensor
    follows: bool = False

    def __call__(self, features: Float[Tensor, "n 2"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """The loss of each sample."""
        corners, zeros = _corners(), torch.zeros(CLASSES, dtype=torch.float64)
        if self.name == "SCE":
            return sce_loss(features, labels, corners, zeros)
        if self.name == "g-SCE":
            precisions = torch.tensor(_PRECISIONS, dtype=torch.float64)
            return gsce_loss(features, labels, corners, precisions, zeros)
        if self.name == "SCE + center":
            return center_loss(features, labels, self.centers, features @ corners.T, _PULL)
        return mmc_loss(features, labels, self.centers)


def plane_losses(features: Float[Tensor, "n 2"], labels: Int[Tensor, " n"]) -> dict[str, PlaneLoss]:
    """The four losses by name; the center loss starts from the features' own means, as it does in training."""
    means = torch.stack([features[labels == label].mean(dim=0) for label in range(CLASSES)])
    return {
        "SCE": PlaneLoss("SCE", _corners()),
        "g-SCE": PlaneLoss("g-SCE", _corners()),
        "SCE + center": PlaneLoss("SCE + center", means, follows=True),
        "MMC": PlaneLoss("MMC", _corners()),
    }


def draw_samples(seed: int) -> tuple[Float[Tensor, "n 2"], Int[Tensor, " n"]]:
    """Features as after a few steps of training: three broad clouds, slightly apart."""
    labels = torch.arange(CLASSES).repeat(_PER_CLASS)
    noise = torch.randn((len(labels), 2), generator=generator(seed, "plane samples"), dtype=torch.float64)
    return 0.4 * _corners()[labels] + 0.9 * noise, labels


def loss_field(loss: _Loss, label: int, extent: float, cells: int) -> FigureRecord:
    """The loss of class ``label`` on a grid, its level sets, and the direction of descent on a coarser grid."""
    axis = torch.linspace(-extent, extent, cells, dtype=torch.float64)
    points = torch.cartesian_prod(axis, axis).flip(1)  # row by row: x runs fastest
    labels = torch.full((len(points),), label)
    values = loss(points, labels).reshape(cells, cells)
    levels = torch.quantile(values[values > _LEAST], torch.tensor(_QUANTILES, dtype=torch.float64)).tolist()
    sparse = torch.linspace(-0.9 * extent, 0.9 * extent, 10, dtype=torch.float64)
    places = torch.cartesian_prod(sparse, sparse)
    return {
        "label": label,
        "extent": extent,
        "axis": _rounded(axis),
        "values": _rounded(values),
        "levels": [{"loss": level, "lines": lines} for level, lines in level_sets(axis, values, levels)],
        "places": _rounded(places),
        "descent": _rounded(-gradients(loss, places, torch.full((len(places),), label))),
    }


def gradients(loss: _Loss, features: Float[Tensor, "n 2"], labels: Int[Tensor, " n"]) -> Float[Tensor, "n 2"]:
    """The gradient of each sample's own loss."""
    free = features.detach().clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(loss(free, labels).sum(), free)
    return gradient


def level_sets(
    axis: Float[Tensor, " m"], values: Float[Tensor, "m m"], levels: list[float]
) -> list[tuple[float, list[list[list[float]]]]]:
    """Each level with the lines of points (x, y) that have it; levels must be positive."""
    wanted = sorted(set(levels))
    places = axis.numpy()
    # Losses decay exponentially: between grid points their logarithm is nearly linear.
    heights = values.clamp_min(_LEAST).log().numpy()
    drawn = Figure().add_subplot().contour(places, places, heights, levels=np.log(wanted))
    return [
        (level, [np.round(line, 4).tolist() for line in lines if len(line) > 1])
        for level, lines in zip(wanted, drawn.allsegs, strict=True)
    ]


def follow(
    loss: PlaneLoss, features: Float[Tensor, "n 2"], labels: Int[Tensor, " n"], steps: int, step_size: float
) -> Float[Tensor, "n 2"]:
    """The samples after so many steps of gradient descent on their own loss."""
    for _ in range(steps):
        features = features - step_size * gradients(loss, features, labels)
        if loss.follows:
            loss.centers = updated_centers(features, labels, loss.centers, _RATE)
    return features


def panel_record(name: str, seed: int, extent: float) -> FigureRecord:
    """One panel: the loss of class 0 on a grid, and samples before and after descent."""
    features, labels = draw_samples(seed)
    loss = plane_losses(features, labels)[name]
    moved = follow(loss, features, labels, steps=25, step_size=0.1)
    return {
        "loss": name,
        "field": loss_field(loss, 0, extent, cells=61),
        "labels": labels.tolist(),
        "before": _rounded(features),
        "after": _rounded(moved),
        "centers": _rounded(loss.centers) if name in ("MMC", "SCE + center") else [],
        "log_density_before": _median_density(features, labels),
        "log_density_after": _median_density(moved, labels),
    }


def _median_density(features: Float[Tensor, "n 2"], labels: Int[Tensor, " n"]) -> float:
    """The median density within a class (Eq. 2)."""
    each = [log_neighbour_density(features[labels == label]) for label in range(CLASSES)]
    return float(torch.cat(each).median())


def _corners() -> Float[Tensor, "3 2"]:
    return max_mahalanobis_centers(CLASSES, 2, _NORM, dtype=torch.float64)


def _rounded(values: Tensor) -> list[Any]:
    return rounded(values.detach().numpy(), 4)


def compute_figure1(options: FigureOptions) -> FigureRecord:
    """Samples and their density under SCE and under MMC (paper Figure 1)."""
    panels = [panel_record(name, options.seed, extent=5.0) for name in ("SCE", "MMC")]
    return {"figure": "figure1", "seed": options.seed, "panels": panels}


def compute_figure2(options: FigureOptions) -> FigureRecord:
    """Samples under g-SCE with unequal precisions, under the center loss and under MMC (paper Figure 2)."""
    names = ("g-SCE", "SCE + center", "MMC")
    panels = [panel_record(name, options.seed, extent=6.0) for name in names]
    return {"figure": "figure2", "seed": options.seed, "panels": panels}


def panels(record: FigureRecord) -> list[Drawing]:
    """Level sets and descent directions of class 0's loss, samples before (faint) and after (solid)."""
    return [_panel(each) for each in record["panels"]]


def _panel(record: FigureRecord) -> Drawing:
    field = record["field"]
    extent = float(field["extent"])
    window = Window([0.0, 0.0, extent], _SIDE)
    lines = [line for each in field["levels"] for line in each["lines"]]
    parts: list[DrawingPart] = [Line(window.place(np.array(line)), "s7", 1.0, opacity=0.7) for line in lines]
    reach = 0.06 * extent
    for place, down in zip(np.array(field["places"]), np.array(field["descent"]), strict=True):
        length = float(np.linalg.norm(down))
        if length > 1e-3:  # where the loss is nearly constant there is no direction
            start, end = window.place(np.stack([place, place + reach * down / length]))
            parts += arrow(start, end, "soft", 0.8, 3.5)
    labels = np.array(record["labels"])
    parts += window.cloud(np.array(record["before"]), labels, 2.0, 0.35)
    parts += window.cloud(np.array(record["after"]), labels, 2.6, 1.0)
    if record["centers"]:
        parts += window.crosses(np.array(record["centers"]))
    change = record["log_density_after"] - record["log_density_before"]
    return window.drawing(f"{record['loss']}: median density × {_power(change)}", parts)


def _power(log_ratio: float) -> str:
    return f"{math.exp(log_ratio):.3g}" if abs(log_ratio) < 13 else f"10^{log_ratio / math.log(10):.0f}"
