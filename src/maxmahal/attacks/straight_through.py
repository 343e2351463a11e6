"""Gradients for a defence that has none (BPDA, Athalye et al. 2018): its exact values, a substitute's gradient.

nn.Sequential(straight_through(quantise), model)
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from maxmahal.errors import ArgumentError


def straight_through(
    function: Callable[[Tensor], Tensor], surrogate: Callable[[Tensor], Tensor] | None = None
) -> nn.Module:
    """A module that computes ``function`` and differentiates ``surrogate``, by default the identity, at the same input.

    Modules passed as either become submodules; no gradient reaches ``function``'s parameters.
    """
    return _StraightThrough(function, surrogate)


class _StraightThrough(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor], surrogate: Callable[[Tensor], Tensor] | None) -> None:
        super().__init__()
        self.function = function
        self.surrogate = surrogate

    def forward(self, inputs: Tensor) -> Tensor:
        with torch.no_grad():
            value = self.function(inputs)
        if self.surrogate is None:
            _check_fit(value, inputs, "the identity has")
        if not (torch.is_grad_enabled() and inputs.requires_grad):
            return value
        carrier = inputs if self.surrogate is None else self.surrogate(inputs)
        _check_fit(value, carrier, "the surrogate returns")
        return _Carried.apply(value, carrier)  # type: ignore[no-untyped-call]


class _Carried(torch.autograd.Function):
    """The first tensor's values, the second one's gradient. Adding a difference instead would round."""

    @staticmethod
    def forward(value: Tensor, carrier: Tensor) -> Tensor:  # noqa: ARG004
        return value.view_as(value)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        """Nothing to keep: the gradient passes as it is."""

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:  # noqa: ARG004
        return None, gradient


def _check_fit(value: Tensor, carrier: Tensor, whose: str) -> None:
    if not value.is_floating_point():
        raise ArgumentError(f"function must return floating-point numbers; got {value.dtype}. Convert its result.")
    if value.shape != carrier.shape:
        raise ArgumentError(
            f"function returns the shape {tuple(value.shape)} where {whose} {tuple(carrier.shape)}; "
            "pass a differentiable surrogate of the same output shape."
        )
