"""A faster equivalent of a model for an attack's search; what the search claims, the model itself confirms.

Each speed-up is tried on the first images and left out where it changes what the model computes.
"""

import copy
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from maxmahal.attacks.objectives import Outputs, plain_classifier
from maxmahal.attacks.prepare.cuda_graphs import relative_difference
from maxmahal.attacks.prepare.folding import Foldable, find_foldable, fold, short_reason
from maxmahal.errors import ArgumentError, check_choice
from maxmahal.models import Classifier
from maxmahal.models.layers import Float32Linear, compile_apart, to_channels_last

Precision = Literal["auto", "float32", "bfloat16"]
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


def prepare(model: nn.Module, *, precision: Precision = "auto", compile: bool | None = None) -> "Prepared":
    """A snapshot of a model in eval mode, made fast for attacking; the model itself is left as it is.

    Batch norm is folded into the layers before it and memory is laid out channels last. ``precision="auto"`` searches
    in bfloat16 on a CUDA GPU that has it; ``compile`` is by default on for CUDA. A speed-up that changes the model's
    outputs is left out, and ``notes`` says so. Training the model later does not reach the snapshot: prepare it again.
    """
    if isinstance(model, Prepared):
        return model
    if not isinstance(model, nn.Module):
        raise ArgumentError(
            f"model must be a torch.nn.Module, so that its gradients can be followed; got a {type(model).__name__}. "
            "Put what it computes into the forward method of a module."
        )
    if model.training:
        raise ArgumentError("model is in training mode, where batch norm and dropout differ; call model.eval() first.")
    check_choice("precision", precision, get_args(Precision))
    try:
        snapshot = copy.deepcopy(model).float().requires_grad_(False)
    except Exception as error:  # a model may hold anything: locks, handles, tensors inside a graph
        notes = {"copy": f"searching the model itself, which cannot be copied ({short_reason(error)})"}
        return Prepared(model, model, NO_SPEEDUPS, notes)
    foldable = find_foldable(network_of(snapshot))
    device = _device(model)
    on_cuda = device is not None and device.type == "cuda"
    if precision == "auto":
        precision = "bfloat16" if on_cuda and torch.cuda.is_bf16_supported() else "float32"
    wanted: dict[Speedup, bool] = {
        "fold": bool(foldable.pairs),
        "channels_last": any(parameter.ndim == 4 for parameter in snapshot.parameters()),  # it has convolutions
        "bfloat16": precision == "bfloat16",
        "compile": on_cuda if compile is None else compile,
    }
    speedups = tuple(name for name, is_wanted in wanted.items() if is_wanted)
    return Prepared(model, snapshot, Plan(speedups, foldable))


class Prepared(nn.Module):
    """What ``prepare`` returns: ``search`` for an attack's steps, ``original`` to confirm their finds and to predict.

    Neither model is a submodule, so that ``train``, ``to`` or ``parameters`` of this one do not reach them.
    """

    def __init__(
        self, original: nn.Module, snapshot: nn.Module, plan: Plan, notes: dict[str, str] | None = None
    ) -> None:
        super().__init__()
        self.eval()
        self._models = (original, snapshot)
        self._device = _device(snapshot)
        self._plan = plan
        self._notes = _first_notes(plan) if notes is None else notes
        self._searches: dict[bool, Search] = {}
        self._float32: tuple[Prepared, ...] = ()

    @property
    def original(self) -> nn.Module:
        """The caller's own model, untouched."""
        return self._models[0]

    @property
    def precision(self) -> Literal["float32", "bfloat16"]:
        """What ``search`` computes in; its outputs are float32 either way."""
        return "bfloat16" if "bfloat16" in self._plan.speedups else "float32"

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done and what was not, and why; the first search may find that a speed-up changes the outputs."""
        return tuple(self._notes.values())

    def precise(self) -> "Prepared":
        """The same snapshot searched in float32, for attacks that end close to the decision boundary."""
        if self.precision == "float32":
            return self
        if not self._float32:
            speedups = tuple(name for name in self._plan.speedups if name != "bfloat16")
            self._float32 = (Prepared(*self._models, replace(self._plan, speedups=speedups)),)
        return self._float32[0]

    def forward(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n l"]:
        """The original's logits."""
        return self.original(images)

    def search(self, images: Float[Tensor, "n c h w"]) -> Outputs:
        """The snapshot's outputs in float32, differentiable with respect to the images."""
        # A compiler makes two functions, with and without gradients: without, the one with gradients is used as well.
        wanted = torch.is_grad_enabled() and images.requires_grad
        with_gradient = wanted or "compile" in self._plan.speedups
        if wanted:
            return self._ask(images, with_gradient)
        with torch.set_grad_enabled(with_gradient):
            outputs = self._ask(images.detach().requires_grad_(with_gradient), with_gradient)
        return Outputs(outputs.logits.detach(), None if outputs.features is None else outputs.features.detach())

    @torch.no_grad()
    def query(self, images: Float[Tensor, "n c h w"]) -> Outputs:
        """The same without gradients, for thousands of queries; compiled for itself, it may round differently."""
        return self._ask(images.detach(), with_gradient=False)

    def _ask(self, images: Tensor, with_gradient: bool) -> Outputs:
        if self._device is not None and images.device != self._device:
            raise ArgumentError(
                f"The model was prepared on {self._device} and the images are on {images.device}; "
                "move the images, or move the model and prepare it again."
            )
        if not len(images):
            return build(self._models[1], NO_SPEEDUPS)(images)
        if with_gradient not in self._searches:
            self._searches[with_gradient] = self._settle(images, with_gradient)
        return self._searches[with_gradient](images)

    def _settle(self, images: Tensor, with_gradient: bool) -> Search:
        """The search with every speed-up that leaves the first images' outputs as they were."""
        with torch.inference_mode(False), torch.no_grad(), _same_draws(images.device):
            images = images[:CHECKED_IMAGES].detach().clone()
            expected = self._first_answers(images)
            images.requires_grad_(with_gradient)
        search = _attempt(self._models[1], self._plan, images, expected)
        if not isinstance(search, str):
            return search
        wanted, kept = self._plan.speedups, replace(self._plan, speedups=())
        search = build(self._models[1], kept)
        for speedup in wanted:
            more = replace(kept, speedups=(*kept.speedups, speedup))
            attempted = _attempt(self._models[1], more, images, expected)
            if isinstance(attempted, str):
                self._notes[speedup] = f"{_LEFT_OUT[speedup]}: {attempted}"
            else:
                search, kept = attempted, more
        self._plan = kept
        return search

    def _first_answers(self, images: Tensor) -> Outputs:
        """The snapshot's outputs; if it fails, as a model that casts to its own dtype does, search the model itself."""
        original, snapshot = self._models
        try:
            return build(snapshot, NO_SPEEDUPS)(images)
        except (torch.OutOfMemoryError, MemoryError):
            raise
        except Exception as error:  # the model's own code
            answers = build(original, NO_SPEEDUPS)(images)
            self._models, self._plan = (original, original), NO_SPEEDUPS
            self._notes = {"copy": f"searching the model itself, whose copy in float32 fails ({short_reason(error)})"}
            return answers


_LEFT_OUT: dict[Speedup, str] = {
    "fold": "batch norm not folded",
    "channels_last": "memory not channels_last",
    "bfloat16": "float32, not bfloat16",
    "compile": "not compiled",
}


def _first_notes(plan: Plan) -> dict[str, str]:
    """One note for each speed-up of the plan, and one on batch norm wherever there is any."""
    folded, count, untraced = len(plan.foldable.pairs), plan.foldable.batch_norms, plan.foldable.untraced
    folding = f"{folded} of {count} batch norms folded into the layers before them"
    if folded and untraced:
        folding += f"; traced in parts, because the whole cannot be ({untraced})"
    elif not folded:
        why = f"the network cannot be traced ({untraced})" if untraced else "none has a plain layer to itself before it"
        folding = f"0 of {count} batch norms folded: {why}"
    applied = {
        "channels_last": "memory channels_last",
        "bfloat16": "bfloat16 but for the last linear layer and the head, which stay in float32",
        "compile": "compiled for any batch size",
    }
    notes = {"fold": folding} if count else {}
    return notes | {name: note for name, note in applied.items() if name in plan.speedups}


def _device(model: nn.Module) -> torch.device | None:
    """Where a model lives; None if nowhere in particular, or in several places."""
    devices = {tensor.device for tensor in chain(model.parameters(), model.buffers())}
    return devices.pop() if len(devices) == 1 else None


def build(snapshot: nn.Module, plan: Plan) -> Search:
    """A search over a copy of the snapshot, or over the snapshot itself where the plan changes nothing in it."""
    changed = {"fold", "channels_last", "bfloat16"} & set(plan.speedups)
    model = copy.deepcopy(snapshot) if changed else snapshot
    if "fold" in plan.speedups:
        fold(network_of(model), plan.foldable.pairs)
    if "channels_last" in plan.speedups:
        to_channels_last(model)
    if "bfloat16" in plan.speedups:
        _to_bfloat16(network_of(model))
    run = _runner(model, channels_last="channels_last" in plan.speedups, bfloat16="bfloat16" in plan.speedups)
    if "compile" in plan.speedups:
        run = compile_apart(run, dynamic=True)
    return lambda images: Outputs(*run(images.float()))


def network_of(model: nn.Module) -> nn.Module:
    """The part worth speeding up: a classifier's head is small, and its checks cannot be traced."""
    return model.backbone if isinstance(model, Classifier) else model


def _runner(model: nn.Module, *, channels_last: bool, bfloat16: bool) -> _Run:
    classifier = plain_classifier(model)

    def run(images: Tensor) -> tuple[Tensor, Tensor | None]:
        if channels_last:
            images = images.to(memory_format=torch.channels_last)
        with _autocast(images.device.type, bfloat16):
            if classifier is None:
                return model(images).float(), None
            features = classifier.features(images)
        # The head tells classes apart by small differences of large numbers, so it never runs in bfloat16.
        with _autocast(images.device.type, enabled=False):
            features = features.float()
            return classifier.head.logits(features).float(), features

    return run


def _autocast(device_type: str, enabled: bool) -> AbstractContextManager[object]:
    """To bfloat16 or to nothing; on a CPU, where a small network takes as long as entering it, only if need be."""
    if device_type == "cpu" and not enabled and not torch.is_autocast_enabled("cpu"):
        return nullcontext()
    return torch.autocast(device_type, dtype=torch.bfloat16, enabled=enabled)


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


def _attempt(snapshot: nn.Module, plan: Plan, images: Tensor, expected: Outputs) -> Search | str:
    """The search of this plan, or the reason why it cannot be used."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # compilers warn about themselves, which helps no caller
            search = build(snapshot, plan)
            with torch.inference_mode(False), torch.set_grad_enabled(images.requires_grad):
                with _same_draws(images.device):
                    outputs = search(images)
                if outputs.logits.requires_grad:
                    torch.autograd.grad(outputs.logits.sum(), images, allow_unused=True)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # the model's own code, or the compiler's
        return short_reason(error)
    pairs = [(outputs.logits, expected.logits), (outputs.features, expected.features)]
    with torch.no_grad():
        off = max(relative_difference(one, two) for one, two in pairs if one is not None and two is not None)
    tolerance = BFLOAT16_TOLERANCE if "bfloat16" in plan.speedups else FLOAT32_TOLERANCE
    return search if off <= tolerance else f"outputs would change by {off:.2g} of the largest"


def _same_draws(device: torch.device) -> AbstractContextManager[None]:
    """Random generators are restored afterwards: a stochastic model draws the same each time, and the caller's stay."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])
