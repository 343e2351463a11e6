"""The ways of making a model's forward and backward pass faster without changing what it computes."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from maxmahal.attacks.fold import Foldable, fold
from maxmahal.attacks.objectives import Outputs, model_outputs
from maxmahal.models import Classifier
from maxmahal.models.compiling import compile_apart
from maxmahal.models.layers import Float32Linear

Speedup = Literal["fold", "channels_last", "bfloat16", "compile"]
Run = Callable[[Tensor], tuple[Tensor, Tensor | None]]


@dataclass(frozen=True)
class Plan:
    """Which speed-ups to apply, in the order of the type; ``buckets`` are the batch sizes to compile for."""

    speedups: tuple[Speedup, ...]
    foldable: Foldable
    buckets: tuple[int, ...] | None


NO_SPEEDUPS = Plan((), Foldable((), 0, None), None)


@dataclass(frozen=True)
class Search:
    """Outputs in float32, differentiable with respect to the images; batches are split and padded to the buckets."""

    run: Run
    buckets: tuple[int, ...] | None

    def __call__(self, images: Tensor) -> Outputs:
        """Logits and features of any number of images."""
        images = images.float()
        if self.buckets is None:
            return Outputs(*self.run(images))
        parts = [self._padded(part) for part in torch.split(images, self.buckets[0])]
        if len(parts) == 1:
            return parts[0]
        features = [part.features for part in parts if part.features is not None]
        return Outputs(torch.cat([part.logits for part in parts]), torch.cat(features) if features else None)

    def _padded(self, images: Tensor) -> Outputs:
        count = len(images)
        logits, features = self.run(pad(images, bucket_for(count, self.buckets)))
        return Outputs(logits[:count], None if features is None else features[:count])


def make_buckets(largest: int) -> tuple[int, ...]:
    """Four batch sizes at most, each a quarter of the one before: few to compile, and little padding for a tail."""
    return tuple(size for power in range(4) if (size := largest // 4**power))


def bucket_for(count: int, buckets: tuple[int, ...] | None) -> int:
    """The smallest bucket that holds so many images."""
    return min((bucket for bucket in buckets or () if bucket >= count), default=count)


def pad(images: Tensor, size: int) -> Tensor:
    """The last image repeated up to ``size``; no gradient comes back through the repetitions."""
    missing = size - len(images)
    if missing <= 0:
        return images
    return torch.cat([images, images[-1:].detach().expand(missing, *images.shape[1:])])


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
    if "compile" not in plan.speedups:
        return Search(run, None)
    return Search(compile_apart(run, dynamic=plan.buckets is None), plan.buckets)


def images_are_convolved(model: nn.Module) -> bool:
    """Whether there is a weight that channels_last memory makes a difference to."""
    return any(parameter.ndim == 4 for parameter in model.parameters())


def network_of(model: nn.Module) -> nn.Module:
    """The part worth speeding up: a classifier's head is small, and its checks cannot be traced."""
    return model.backbone if isinstance(model, Classifier) else model


def _runner(model: nn.Module, *, channels_last: bool, bfloat16: bool) -> Run:
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
