"""Adversarial weight perturbation (Wu et al. 2020): the gradient at weights that were moved to raise the loss."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

_LEAST_NORM = 1e-20


@contextmanager
def perturbed_weights(
    model: nn.Module,
    loss: Callable[[], Float[Tensor, ""]],
    size: float,
    add_up: Callable[[Sequence[Tensor]], None] = lambda _: None,
) -> Iterator[None]:
    """Inside, each weight matrix or kernel W is W + size·‖W‖·g/‖g‖, where g is the gradient of ``loss``.

    Biases and batch norm stay. Afterwards all weights are back to the last bit; what ``loss`` did to buffers, such as
    running statistics, is undone before. A fixed sequence of tensor operations, so it can be recorded. ``add_up``
    replaces gradients by their sums over processes.
    """
    weights = [parameter for parameter in model.parameters() if parameter.requires_grad and parameter.ndim > 1]
    buffers = list(model.buffers())
    with torch.no_grad():
        originals, before = ([each.clone() for each in tensors] for tensors in (weights, buffers))
    gradients = torch.autograd.grad(loss(), weights, allow_unused=True, materialize_grads=True)
    try:
        with torch.no_grad():
            add_up(gradients)
            for buffer, value in zip(buffers, before, strict=True):
                buffer.copy_(value)
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.add_(size * weight.norm() / (gradient.norm() + _LEAST_NORM) * gradient)
        yield
    finally:
        with torch.no_grad():
            for weight, original in zip(weights, originals, strict=True):
                weight.copy_(original)
