"""A faster equivalent of a model for an attack's search; what the search claims, the model itself confirms."""

import copy
from dataclasses import replace
from itertools import chain
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from maxmahal.attacks.objectives import Outputs
from maxmahal.attacks.prepare.folding import Foldable, find_foldable, short_reason
from maxmahal.attacks.prepare.speedups import (
    NO_SPEEDUPS,
    Plan,
    Rehearsal,
    Search,
    Speedup,
    build,
    images_are_convolved,
    network_of,
)
from maxmahal.errors import ArgumentError, did_you_mean

Precision = Literal["auto", "float32", "bfloat16"]


def prepare(
    model: nn.Module,
    *,
    precision: Precision = "auto",
    compile: bool | None = None,
) -> "Prepared":
    """A snapshot of a model in eval mode, made fast for attacking; the model itself is left as it is.

    Batch norm is folded into the layers before it and memory is laid out channels last. ``precision="auto"`` searches
    in bfloat16 on a CUDA GPU that has it, in float32 elsewhere. ``compile`` is by default on for CUDA and off
    elsewhere. A speed-up that changes the model's outputs is left out, and ``notes`` says so.

    Training the model later does not reach the snapshot: prepare it again.
    """
    if isinstance(model, Prepared):
        return model
    _check_arguments(model, precision)
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
        "channels_last": images_are_convolved(snapshot),
        "bfloat16": precision == "bfloat16",
        "compile": on_cuda if compile is None else compile,
    }
    speedups = tuple(name for name, is_wanted in wanted.items() if is_wanted)
    return Prepared(model, snapshot, Plan(speedups, foldable))


class Prepared(nn.Module):
    """What ``prepare`` returns: ``search`` for an attack's steps, ``original`` to confirm what they find.

    Called as a model it predicts with the original. Neither model is a submodule of this one, so that ``train``, ``to``
    or ``parameters`` of this one do not reach them.
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
        logits: Tensor = self.original(images)
        return logits

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
        """The same for an attack that asks thousands of times and never for a gradient: nothing is kept for one.

        Compiled for itself, it may round differently from ``search``.
        """
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
        trial = Rehearsal(self._models[1], images, with_gradient)
        search = trial.attempt(self._plan)
        if not isinstance(search, str):
            return search
        wanted, kept = self._plan.speedups, replace(self._plan, speedups=())
        search = build(self._models[1], kept)
        for speedup in wanted:
            more = replace(kept, speedups=(*kept.speedups, speedup))
            attempted = trial.attempt(more)
            if isinstance(attempted, str):
                self._notes[speedup] = f"{_LEFT_OUT[speedup]}: {attempted}"
            else:
                search, kept = attempted, more
        self._plan = kept
        return search


_LEFT_OUT: dict[Speedup, str] = {
    "fold": "batch norm not folded",
    "channels_last": "memory not channels_last",
    "bfloat16": "float32, not bfloat16",
    "compile": "not compiled",
}


def _first_notes(plan: Plan) -> dict[str, str]:
    """One note for each speed-up of the plan, and one on batch norm wherever there is any."""
    notes = {}
    if plan.foldable.batch_norms:
        notes["fold"] = _folding_note(plan.foldable)
    if "channels_last" in plan.speedups:
        notes["channels_last"] = "memory channels_last"
    if "bfloat16" in plan.speedups:
        notes["bfloat16"] = "bfloat16 but for the last linear layer and the head, which stay in float32"
    if "compile" in plan.speedups:
        notes["compile"] = "compiled for any batch size"
    return notes


def _folding_note(foldable: Foldable) -> str:
    folded, count, untraced = len(foldable.pairs), foldable.batch_norms, foldable.untraced
    if not folded:
        why = f"the network cannot be traced ({untraced})" if untraced else "none has a plain layer to itself before it"
        return f"0 of {count} batch norms folded: {why}"
    parts = f"; traced in parts, because the whole cannot be ({untraced})" if untraced else ""
    return f"{folded} of {count} batch norms folded into the layers before them{parts}"


def _device(model: nn.Module) -> torch.device | None:
    """Where a model lives; None if nowhere in particular, or in several places."""
    devices = {tensor.device for tensor in chain(model.parameters(), model.buffers())}
    return devices.pop() if len(devices) == 1 else None


def _check_arguments(model: nn.Module, precision: str) -> None:
    if not isinstance(model, nn.Module):
        raise ArgumentError(
            f"model must be a torch.nn.Module, so that its gradients can be followed; got a {type(model).__name__}. "
            "Put what it computes into the forward method of a module."
        )
    if model.training:
        raise ArgumentError("model is in training mode, where batch norm and dropout differ; call model.eval() first.")
    if precision not in get_args(Precision):
        raise ArgumentError(f"precision = '{precision}' is unknown; {did_you_mean(precision, get_args(Precision))}")
