"""Batch norm with the statistics of the whole batch, of which every process has a part.

``torch.nn.SyncBatchNorm`` does the same on GPUs only.
"""

from types import MethodType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from maxmahal.train.processes import sum_over_processes


def synchronise_batch_norm(model: nn.Module) -> list[Tensor]:
    """Let each batch norm of ``model`` use the whole batch in training mode; returns their buffers."""
    norms = [each for each in model.modules() if getattr(each.forward, "__func__", None) is _BatchNorm.forward]
    apart = torch.compiler.disable(whole_batch_norm)  # type: ignore[no-untyped-call]  # it cannot trace messages
    for norm in norms:
        # On the instance: its class and the names of its weights must stay.
        norm.forward = MethodType(apart, norm)
    return [buffer for norm in norms for buffer in norm.buffers()]


def whole_batch_norm(norm: _BatchNorm, inputs: Float[Tensor, "n c ..."]) -> Float[Tensor, "n c ..."]:
    """weight·(x - mean)/√(variance + eps) + bias, with mean and variance over all processes; gradients flow to all."""
    if not norm.training:
        return _BatchNorm.forward(norm, inputs)
    values = inputs.to(torch.promote_types(inputs.dtype, torch.float32))
    axes, shape = [0, *range(2, inputs.ndim)], [1, -1, *[1] * (inputs.ndim - 2)]
    number = values.new_full((1,), values.numel() / norm.num_features)
    sums = _total(torch.cat([values.sum(axes), number]))
    count = sums[-1].detach()
    mean = sums[:-1] / count
    centered = values - mean.view(shape)
    variance = _total(centered.square().sum(axes)) / count
    _update(norm, mean.detach(), variance.detach() * count / (count - 1))
    scale = (variance + norm.eps).rsqrt()
    scale = scale if norm.weight is None else scale * norm.weight
    outputs = centered * scale.view(shape)
    return (outputs if norm.bias is None else outputs + norm.bias.view(shape)).to(inputs.dtype)


def _total(part: Tensor) -> Tensor:
    """The sum over all processes."""
    total: Tensor = _Total.apply(part)  # type: ignore[no-untyped-call]
    return total


class _Total(torch.autograd.Function):
    """Every process's loss depends on the sum, so the gradient of a part is the sum of their gradients."""

    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:  # noqa: ARG004
        total = part.clone()
        sum_over_processes(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:  # noqa: ARG004
        return _total(gradients[0])


def _update(norm: _BatchNorm, mean: Float[Tensor, " c"], variance: Float[Tensor, " c"]) -> None:
    """Move the running statistics as ``nn.BatchNorm2d`` does."""
    if norm.running_mean is None or norm.running_var is None or norm.num_batches_tracked is None:
        return
    norm.num_batches_tracked.add_(1)
    rate = 1 / norm.num_batches_tracked if norm.momentum is None else norm.momentum
    norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), rate)
    norm.running_var.lerp_(variance.to(norm.running_var.dtype), rate)
