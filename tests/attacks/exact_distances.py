"""The smallest perturbation of a linear model, exactly, with or without pixels kept inside [0, 1]."""

import torch
from small_models import Linear
from torch import Tensor


def exact_distances(model: Linear, images: Tensor, labels: Tensor, norm: str, *, box: bool = True) -> Tensor:
    """How far each image is from the nearest wrong class; infinite where the box rules all of them out."""
    weight, bias = model.weight.detach().double(), model.bias.detach().double()
    found = []
    for image, label in zip(images.double().flatten(1), labels.tolist(), strict=True):
        wrong = [k for k in range(len(weight)) if k != label]
        slopes = [(weight[label] - weight[k], bias[label] - bias[k]) for k in wrong]
        margins = [(slope, float(slope @ image + offset)) for slope, offset in slopes]
        if box:
            found.append(min(_inside_the_box(slope, margin, image, norm) for slope, margin in margins))
        else:
            dual = 2 if norm == "l2" else 1
            found.append(min(max(margin, 0.0) / float(slope.norm(dual)) for slope, margin in margins))
    return torch.tensor(found, dtype=torch.float64)


def _inside_the_box(slope: Tensor, margin: float, image: Tensor, norm: str) -> float:
    """The least norm of a change that brings a linear margin to zero: one number, found by bisection."""
    if margin <= 0:
        return 0.0
    room = torch.where(slope > 0, image, 1 - image)  # towards the bound that lowers the margin

    def change(level: float) -> Tensor:
        wanted = level * slope.abs() if norm == "l2" else torch.full_like(slope, level)
        return torch.minimum(wanted, room)

    low, high = 0.0, 1.0
    while change(high) @ slope.abs() < margin:
        if torch.equal(change(high), room):
            return torch.inf
        low, high = high, 2 * high
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if change(middle) @ slope.abs() < margin else (low, middle)
    return float(change(high).norm()) if norm == "l2" else float(change(high).max())
