"""Losses over a plane of features: fields, gradients, level sets, and how samples move down them.

Three classes in two dimensions, as the paper draws them (Figures 1 and 2). Features move freely here, without a network
in front of them: a picture of what each loss asks for, not of what a network can do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from maxmahal.centers import max_mahalanobis_centers
from maxmahal.density.counting import log_neighbour_density
from maxmahal.losses.center import center_loss, updated_centers
from maxmahal.losses.mmc import mmc_loss
from maxmahal.losses.quadratic import gsce_loss
from maxmahal.losses.softmax import sce_loss
from maxmahal.random import generator

Record = dict[str, Any]
_Loss = Callable[[Tensor, Tensor], Tensor]
CLASSES = 3
_NORM = 2.0
_PRECISIONS = (0.3, 0.6, 0.9)  # those of g-SCE: unequal, so that class 0's contours close, and its loss can reach 0
_PULL = 0.1  # the center loss's weight beside the softmax
_RATE = 0.1  # how far its centers follow the features at each step
_LEAST = 1e-9  # below it a softmax loss is mostly rounding
_QUANTILES = (0.02, 0.08, 0.18, 0.32, 0.5, 0.7, 0.9)  # of the field: where level sets are drawn


@dataclass
class PlaneLoss:
    """A loss on the plane; ``centers`` are what it pulls towards, where it has any, and move only if ``follows``."""

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


def draw_samples(seed: int, per_class: int = 60) -> tuple[Float[Tensor, "n 2"], Int[Tensor, " n"]]:
    """Features as a young network makes them: three broad clouds, each a little on its own side."""
    labels = torch.arange(CLASSES).repeat(per_class)
    noise = torch.randn((len(labels), 2), generator=generator(seed, "plane samples"), dtype=torch.float64)
    return 0.4 * _corners()[labels] + 0.9 * noise, labels


def loss_field(loss: _Loss, label: int, extent: float, cells: int) -> Record:
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
    """Each level with the lines of points (x, y) on which the field has it; levels are to be above 0."""
    wanted = sorted(set(levels))
    places = axis.numpy()
    # A loss falls off exponentially: between the points of the grid its logarithm is nearly straight, itself is not.
    heights = values.clamp_min(_LEAST).log().numpy()
    drawn = Figure().add_subplot().contour(places, places, heights, levels=np.log(wanted))
    return [
        (level, [np.round(line, 4).tolist() for line in lines if len(line) > 1])
        for level, lines in zip(wanted, drawn.allsegs, strict=True)
    ]


def follow(
    loss: PlaneLoss, features: Float[Tensor, "n 2"], labels: Int[Tensor, " n"], steps: int, step_size: float
) -> Float[Tensor, "n 2"]:
    """Where the samples are after so many steps down the gradient of their own loss."""
    for _ in range(steps):
        features = features - step_size * gradients(loss, features, labels)
        if loss.follows:
            loss.centers = updated_centers(features, labels, loss.centers, _RATE)
    return features


def panel(name: str, seed: int, *, steps: int, step_size: float, extent: float, cells: int = 61) -> Record:
    """One loss as a figure shows it: its field for class 0, and samples before and after they followed it."""
    features, labels = draw_samples(seed)
    loss = plane_losses(features, labels)[name]
    moved = follow(loss, features, labels, steps, step_size)
    return {
        "loss": name,
        "field": loss_field(loss, 0, extent, cells),
        "labels": labels.tolist(),
        "before": _rounded(features),
        "after": _rounded(moved),
        "centers": _rounded(loss.centers) if name in ("MMC", "SCE + center") else [],
        "log_density_before": _median_density(features, labels),
        "log_density_after": _median_density(moved, labels),
    }


def _median_density(features: Float[Tensor, "n 2"], labels: Int[Tensor, " n"]) -> float:
    """Of the samples' densities within their own class (Eq. 2)."""
    each = [log_neighbour_density(features[labels == label]) for label in range(CLASSES)]
    return float(torch.cat(each).median())


def _corners() -> Float[Tensor, "3 2"]:
    return max_mahalanobis_centers(CLASSES, 2, _NORM, dtype=torch.float64)


def _rounded(values: Tensor) -> list[Any]:
    rounded: list[Any] = np.round(values.detach().numpy(), 4).tolist()
    return rounded
