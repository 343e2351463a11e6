"""How weights are updated: momentum SGD, the learning rate schedule, their average and adversarial perturbation."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from maxmahal.attacks.prepare.folding import short_reason
from maxmahal.errors import SettingsError
from maxmahal.losses.angular import AngularHead
from maxmahal.models import Classifier
from maxmahal.train.config import TrainSettings

_LEAST_NORM = 1e-20


def build_optimiser(model: nn.Module, settings: TrainSettings) -> torch.optim.SGD:
    """SGD over all trainable parameters; only convolution kernels (or all weight matrices) decay."""
    kinds: tuple[type[nn.Module], ...] = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
    if settings.decay == "weights":
        kinds = (*kinds, nn.Linear, AngularHead)
    layers = [module for module in model.modules() if isinstance(module, kinds)]
    decayed = list({id(each): each for layer in layers for each in _matrices(layer)}.values())  # a shared one only once
    others = [parameter for parameter in model.parameters() if all(parameter is not one for one in decayed)]
    groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    device = (decayed or others)[0].device
    if device.type != "cuda":
        return torch.optim.SGD(groups, lr=settings.lr, momentum=settings.momentum)
    # On a GPU the rate and the momentum need fixed addresses, so that a step can be recorded as a CUDA graph.
    lr = torch.tensor(settings.lr, device=device)
    optimiser = torch.optim.SGD(groups, lr=lr, momentum=settings.momentum, fused=True)
    for parameter in model.parameters():
        optimiser.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimiser


def _matrices(layer: Any) -> list[nn.Parameter]:
    """The weight of a layer, or the parameters from which weight or spectral normalisation computes it."""
    if isinstance(layer.weight, nn.Parameter):
        return [layer.weight]
    return [parameter for parameter in layer.parameters() if parameter.ndim > 1]


def momentum_tensors(model: nn.Module, optimiser: torch.optim.SGD) -> dict[str, Tensor]:
    """The momentum buffers by parameter name, for a checkpoint; zeros for a parameter that no step has used yet."""
    buffers = {}
    for name, parameter in model.named_parameters():
        buffer = optimiser.state.get(parameter, {}).get("momentum_buffer")
        if buffer is None and parameter.requires_grad and optimiser.param_groups[0]["momentum"]:
            buffer = torch.zeros_like(parameter)
        if buffer is not None:
            buffers[name] = buffer
    return buffers


def restore_momentum(model: nn.Module, optimiser: torch.optim.SGD, tensors: dict[str, Tensor]) -> None:
    """Put back what ``momentum_tensors`` saved."""
    for name, parameter in model.named_parameters():
        if name not in tensors and not (parameter.requires_grad and optimiser.param_groups[0]["momentum"]):
            continue  # it never had a buffer
        # The saved tensor is dense; the parameter may be channels_last, and the update must not change layout.
        optimiser.state[parameter]["momentum_buffer"] = torch.empty_like(parameter).copy_(tensors[name])


def learning_rate(settings: TrainSettings, step: int, total: int) -> float:
    """The learning rate of step number ``step`` (from 0) of ``total``."""
    done = step / total
    if done < settings.warmup:
        return settings.lr * min(1.0, (step + 1) / (settings.warmup * total))  # the first step is not zero
    if settings.schedule == "step":
        return settings.lr * settings.factor ** sum(done >= milestone for milestone in settings.milestones)
    rest = (done - settings.warmup) / (1 - settings.warmup)
    if settings.schedule == "cosine":
        return settings.lr * 0.5 * (1 + math.cos(math.pi * rest))
    return settings.lr * (1 - rest)


def average_weight(settings: TrainSettings, step: int, total: int) -> float:
    """The weight of the new weights in their average after step number ``step`` (from 0) of ``total``."""
    if settings.ema:
        decay = min(settings.ema, (1 + step) / (10 + step)) if settings.ema_warmup else settings.ema
        return 1 - decay
    return 1 / max(1, step + 1 - math.ceil(settings.swa * total - 1e-9))  # 0.55 · 100 is more than 55


class WeightAverage:
    """``average ← (1 - w)·average + w·weights`` after every step, batch-norm statistics included; what is saved.

    ``average_weight`` is w: constant up to its warm-up (``ema``), or 1 and then 1/2, 1/3, … (``swa``).
    """

    def __init__(self, model: Classifier, settings: TrainSettings) -> None:
        try:
            self.model: Classifier = copy.deepcopy(model).requires_grad_(False)
        except Exception as error:  # of a network that holds locks, handles or computed weights
            raise SettingsError(
                f"The network cannot be copied ({short_reason(error)}), so its weights cannot be averaged; set "
                "train.ema=0 and train.swa=1, or let copy.deepcopy work on it."
            ) from error
        self._settings = settings
        pairs = list(zip(self.model.state_dict().values(), model.state_dict().values(), strict=True))
        self._moving = [pair for pair in pairs if pair[0].is_floating_point()]
        self._counters = [pair for pair in pairs if not pair[0].is_floating_point()]

    @torch.no_grad()
    def update(self, step: int, total: int) -> None:
        """Add the current weights to the average."""
        averages, current = (list(tensors) for tensors in zip(*self._moving, strict=True))
        # One call for all tensors: on a GPU two hundred small calls take longer than the training step itself.
        torch._foreach_lerp_(averages, current, average_weight(self._settings, step, total))
        for average, counter in self._counters:
            average.copy_(counter)


@contextmanager
def perturbed_weights(
    model: nn.Module,
    loss: Callable[[], Float[Tensor, ""]],
    size: float,
    add_up: Callable[[Sequence[Tensor]], None] = lambda _: None,
) -> Iterator[None]:
    """Inside, each weight matrix or kernel W is W + size·‖W‖·g/‖g‖, g the gradient of ``loss`` (Wu et al. 2020).

    Afterwards all weights are back to the last bit; what ``loss`` did to buffers is undone before. ``add_up`` replaces
    gradients by their sums over processes. A fixed sequence of tensor operations, so it can be recorded.
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
