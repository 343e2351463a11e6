"""Projected gradient descent (Madry et al.): the white-box attack, and the crafting step of adversarial training."""

import math
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from maxmahal.attacks.objectives import Objective, Outputs, model_outputs
from maxmahal.attacks.threats import Linf
from maxmahal.errors import ArgumentError
from maxmahal.random import content_ids


def pgd(
    model: nn.Module,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    *,
    objective: Objective,
    threat: Linf,
    steps: int,
    step_size: float,
    seed: int,
    sample_ids: Int[Tensor, " n"] | None = None,
    targets: Int[Tensor, " n"] | None = None,
    random_start: bool = True,
    keep: Literal["best", "last"] = "best",
) -> Float[Tensor, "n c h w"]:
    """Images inside the threat that make ``objective`` small.

    ``keep="best"`` returns, for each sample, the iterate that fools the model with the smallest objective, or the
    smallest objective if none does; ``"last"`` returns the last iterate, as the paper's code does. Random numbers
    belong to ``sample_ids``, by default a hash of each image and its label. The model is used in the mode it is in,
    and its parameters receive no gradients.
    """
    if sample_ids is None:
        sample_ids = content_ids(images, labels)
    _check_arguments(images, labels, sample_ids, targets, steps, step_size, keep)
    best = _Best(images, labels, targets) if keep == "best" else None
    moved = threat.random_start(images, sample_ids, "pgd-start", seed) if random_start else images.clone()
    for _ in range(steps):
        moved = moved.detach().requires_grad_()
        with torch.enable_grad():
            outputs = model_outputs(model, moved)
            _check_classes(outputs, labels, targets)
            values = objective(outputs, labels, targets)
            (gradient,) = torch.autograd.grad(values.sum(), moved)
        moved = moved.detach()
        if best is not None:
            best.offer(moved, outputs, values)
        moved = threat.project(images, threat.descend(moved, gradient, step_size))
    if best is None:
        return moved
    with torch.no_grad():
        outputs = model_outputs(model, moved)
        best.offer(moved, outputs, objective(outputs, labels, targets))
    return best.images


def _check_arguments(
    images: Tensor,
    labels: Tensor,
    sample_ids: Tensor,
    targets: Tensor | None,
    steps: int,
    step_size: float,
    keep: str,
) -> None:
    if steps < 1:
        raise ArgumentError(f"steps must be at least 1; got {steps}.")
    if not (step_size > 0 and math.isfinite(step_size)):
        raise ArgumentError(f"step_size must be positive; got {step_size}.")
    if keep not in ("best", "last"):
        raise ArgumentError(f"keep must be 'best' or 'last'; got '{keep}'.")
    if images.device.type == "cpu" and len(images) and not (images.min() >= 0 and images.max() <= 1):
        raise ArgumentError(
            f"images must lie in [0, 1]; got {float(images.min()):g}..{float(images.max()):g}. "
            "Divide bytes by 255, and let the model normalise."
        )
    for name, tensor in (("labels", labels), ("sample_ids", sample_ids), ("targets", targets)):
        if tensor is not None and tensor.shape != images.shape[:1]:
            raise ArgumentError(f"{name} must hold one value for each of the {len(images)} images; got {len(tensor)}.")


def _check_classes(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> None:
    # On a GPU reading labels back would stall every step; there they were checked with the data set.
    if labels.device.type != "cpu" or not len(labels):
        return
    classes = outputs.logits.shape[1]
    for name, tensor in (("labels", labels), ("targets", targets)):
        if tensor is not None and not 0 <= int(tensor.min()) <= int(tensor.max()) < classes:
            raise ArgumentError(
                f"{name} must lie in 0..{classes - 1} because the model has {classes} classes; "
                f"got {int(tensor.min())}..{int(tensor.max())}."
            )


class _Best:
    """The best iterate of each sample so far."""

    def __init__(self, images: Tensor, labels: Tensor, targets: Tensor | None) -> None:
        self.images = images.clone()
        self._labels = labels
        self._targets = targets
        self._value = images.new_full((len(images),), torch.inf)
        self._rank = torch.zeros(len(images), dtype=torch.int64, device=images.device)

    def offer(self, moved: Tensor, outputs: Outputs, values: Tensor) -> None:
        """Take over the samples for which this iterate is better."""
        values = values.detach().to(self._value.dtype)
        rank = self._success(outputs)
        better = (rank > self._rank) | ((rank == self._rank) & (values < self._value))
        self.images = torch.where(better[:, None, None, None], moved, self.images)
        self._value = torch.where(better, values, self._value)
        self._rank = torch.where(better, rank, self._rank)

    def _success(self, outputs: Outputs) -> Int[Tensor, " n"]:
        """0 where the model is right, 1 where it is fooled, 2 where it says what a targeted attack wants."""
        predictions = outputs.logits.detach().argmax(dim=1)
        fooled = (predictions != self._labels).long()
        return fooled if self._targets is None else fooled + (predictions == self._targets).long()
