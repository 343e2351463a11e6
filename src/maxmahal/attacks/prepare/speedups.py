"""The ways of making a model faster without changing what it computes, and the test of each on the first images."""

import copy
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from maxmahal.attacks.objectives import Outputs, model_outputs
from maxmahal.attacks.prepare.folding import Foldable, fold, short_reason
from maxmahal.models import Classifier
from maxmahal.models.compiling import compile_apart
from maxmahal.models.layers import Float32Linear

Speedup = Literal["fold", "channels_last", "bfloat16", "compile"]
# Outputs in float32, differentiable with respect to the images.
Search = Callable[[Tensor], Outputs]
_Run = Callable[[Tensor], tuple[Tensor, Tensor | None]]


@dataclass(frozen=True)
class Plan:
    """Which speed-ups to apply, in the order of the type."""

    speedups: tuple[Speedup, ...]
    foldable: Foldable


NO_SPEEDUPS = Plan((), Foldable((), 0, None))


def build(snapshot: nn.Module, plan: Plan) -> Search:
    """A search over a copy of the snapshot, or over the snapshot itself where the plan changes nothing in it."""
    changed = {"fold", "channels_last", "bfloat16"} & set(plan.speedups)
    model = copy.deepcopy(snapshot) if changed else snapshot
    if "fold" in plan.speedups:
        fold(network_of(model), plan.foldable.pairs)
    if "channels_last" in plan.speedups:
        _to_channels_last(model)
    if "bfloat16" in plan.speedups:
        _to_bfloat16(network_of(model))
    run = _runner(model, channels_last="channels_last" in plan.speedups, bfloat16="bfloat16" in plan.speedups)
    if "compile" in plan.speedups:
        run = compile_apart(run, dynamic=True)
    return lambda images: Outputs(*run(images.float()))


def images_are_convolved(model: nn.Module) -> bool:
    """Whether there is a weight that channels_last memory makes a difference to."""
    return any(parameter.ndim == 4 for parameter in model.parameters())


def network_of(model: nn.Module) -> nn.Module:
    """The part worth speeding up: a classifier's head is small, and its checks cannot be traced."""
    return model.backbone if isinstance(model, Classifier) else model


def _runner(model: nn.Module, *, channels_last: bool, bfloat16: bool) -> _Run:
    def run(images: Tensor) -> tuple[Tensor, Tensor | None]:
        if channels_last:
            images = images.to(memory_format=torch.channels_last)
        with torch.autocast(images.device.type, dtype=torch.bfloat16, enabled=bfloat16):
            if not isinstance(model, Classifier):
                outputs = model_outputs(model, images)
                features = None if outputs.features is None else outputs.features.float()
                return outputs.logits.float(), features
            features = model.features(images)
        # The head tells classes apart by small differences of large numbers, so it never runs in bfloat16.
        with torch.autocast(images.device.type, enabled=False):
            features = features.float()
            return model.head.logits(features).float(), features

    return run


def _to_channels_last(model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)


def _to_bfloat16(network: nn.Module) -> None:
    """Cast the weights once, not at every step; the last linear layer, which makes features or logits, is kept."""
    layers = [module for module in network.modules() if isinstance(module, nn.modules.conv._ConvNd | nn.Linear)]
    linear = [layer for layer in layers if type(layer) in (nn.Linear, Float32Linear)]
    for layer in layers:
        if linear and layer is linear[-1]:
            layer.__class__ = Float32Linear
        else:
            layer.to(torch.bfloat16)


CHECKED_IMAGES = 4
# Shares of the largest value that rounding stays below (float32 on a GPU may mean TF32); a network that was folded
# where it must not be is off by far more.
FLOAT32_TOLERANCE = 1e-2
BFLOAT16_TOLERANCE = 0.25


class Rehearsal:
    """The first images of an attack, on which a speed-up must give what the snapshot gives."""

    def __init__(self, snapshot: nn.Module, images: Tensor, with_gradient: bool) -> None:
        self._snapshot = snapshot
        self._with_gradient = with_gradient
        with torch.inference_mode(False), torch.no_grad(), _same_draws(images.device):
            self._images = images[:CHECKED_IMAGES].detach().clone()
            self._expected = build(snapshot, NO_SPEEDUPS)(self._images)

    def attempt(self, plan: Plan) -> Search | str:
        """The search of this plan, or the reason why it cannot be used."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # compilers warn about themselves, which helps no caller
                search = build(self._snapshot, plan)
                outputs = self._outputs(search)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # the model's own code, or the compiler's
            return short_reason(error)
        tolerance = BFLOAT16_TOLERANCE if "bfloat16" in plan.speedups else FLOAT32_TOLERANCE
        off = _relative_difference(outputs, self._expected)
        return search if off <= tolerance else f"outputs would change by {off:.2g} of the largest"

    def _outputs(self, search: Search) -> Outputs:
        with torch.inference_mode(False), torch.set_grad_enabled(self._with_gradient):
            images = self._images.detach().requires_grad_(self._with_gradient)
            with _same_draws(images.device):
                outputs = search(images)
            if outputs.logits.requires_grad:
                torch.autograd.grad(outputs.logits.sum(), images, allow_unused=True)
        return outputs


def _same_draws(device: torch.device) -> AbstractContextManager[None]:
    """Random generators are restored afterwards: a stochastic model draws the same each time, and the caller's stay."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


@torch.no_grad()
def _relative_difference(outputs: Outputs, expected: Outputs) -> float:
    pairs = [(outputs.logits, expected.logits)]
    if outputs.features is not None and expected.features is not None:
        pairs.append((outputs.features, expected.features))
    off = [(one - two).abs().max() / two.abs().max().clamp_min(1e-30) for one, two in pairs]
    return float(torch.stack(off).nan_to_num(torch.inf).max())
