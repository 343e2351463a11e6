"""BPDA (Athalye et al. 2018): a copy of a model that passes gradients straight through steps without useful ones.

Modules whose gradients are missing, zero or misleading are wrapped as a whole. For steps written inside a forward,
rounding and similar functions keep their values and pass the gradient on as if they were the identity; so do
``detach``, a block without gradients, and a conversion to integers or comparisons and back.
"""

import copy
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from maxmahal.attacks import Prepared, straight_through
from maxmahal.attacks.prepare.prepared import NO_SPEEDUPS
from maxmahal.evaluate.diagnose.probe import pull_back
from maxmahal.random import own_stream

_IMAGES = 16  # to try modules on: enough that no unit is inactive for all of them by chance
# Relative to the norm of a module's input: how far its output may be from it for the identity to approximate it.
_NEAR_IDENTITY = 0.25
# Of the inputs' range: about the size of an attack's perturbation, over which the gradient should be informative.
_STEP = 0.05
# A gradient that predicts less than half or more than twice the change of its module is misleading.
_INFORMATIVE = (0.5, 2.0)


def bpda_model(model: nn.Module, images: Float[Tensor, "n c h w"]) -> Prepared | None:
    """The model to confirm, with a copy to search on that passes gradients on; None if that changes no gradient."""
    images = images[:_IMAGES].detach()
    try:
        search = copy.deepcopy(model).requires_grad_(False)
    except Exception:  # a model may hold anything: locks, handles, tensors inside a graph
        return None
    for name, inputs in _candidates(search, images).items():
        module = search.get_submodule(name)
        if _misleads(module, inputs):
            parent, _, own = name.rpartition(".")
            setattr(search.get_submodule(parent), own, straight_through(Opaque(module)))
    through = StraightThroughModel(search)
    before, after = _gradient(model, images), _gradient(through, images)
    if after is None or not bool(after.nan_to_num(0.0, 0.0, 0.0).any()):
        return None
    if before is not None and torch.allclose(before, after, equal_nan=True):
        return None
    return Prepared(model, through, NO_SPEEDUPS, notes={})


def _candidates(model: nn.Module, images: Tensor) -> dict[str, Tensor]:
    """The outermost modules without parameters that keep their input's shape, with an input for each."""
    found: dict[str, Tensor] = {}
    handles = []

    def keep(name: str, _: nn.Module, inputs: tuple[object, ...], output: object) -> None:
        first = inputs[0] if len(inputs) == 1 else None
        both = [tensor for tensor in (first, output) if isinstance(tensor, Tensor) and tensor.is_floating_point()]
        if len(both) == 2 and both[0].shape == both[1].shape:
            found[name] = both[0].detach().clone()

    for name, module in model.named_modules():
        if name and not any(True for _ in module.parameters()):
            handles.append(module.register_forward_hook(partial(keep, name)))
    try:
        with torch.no_grad(), torch.random.fork_rng([images.device] if images.is_cuda else []):
            model(images)
    finally:
        for handle in handles:
            handle.remove()
    return {name: seen for name, seen in found.items() if not any(name.startswith(f"{other}.") for other in found)}


def _misleads(module: nn.Module, inputs: Tensor) -> bool:
    """Whether a module's gradient is missing, zero, or far from its change over a step of an attack."""
    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(0, 2, inputs.shape, generator=generator).to(inputs) * 2 - 1
    step = _STEP * float(inputs.max() - inputs.min())
    above, here, below = (_call(module, inputs + way * step * signs) for way in (1.0, 0.0, -1.0))
    change = above - below
    if not bool(change.any()):
        return False  # a constant: nothing to pass on
    gradient = pull_back(lambda moved: _call(module, moved), inputs, change)
    if gradient is None or not bool(gradient.any()):
        return True
    if float((here - inputs).norm()) > _NEAR_IDENTITY * float(inputs.norm()):
        return False  # the identity would be misleading too
    predicted = 2 * step * float((gradient * signs).sum())
    ratio = predicted / float(change.square().sum())
    return not _INFORMATIVE[0] <= ratio <= _INFORMATIVE[1]


def _call(module: nn.Module, inputs: Tensor) -> Tensor:
    """The module's output, with the same random numbers in every call."""
    with own_stream(inputs.device, 0):
        output: Tensor = module(inputs)
    return output


def _gradient(model: nn.Module, images: Tensor) -> Tensor | None:
    """Of a weighted sum of the logits; with equal weights, logits with a constant sum would cancel."""
    with torch.no_grad():
        classes = _call(model, images[:1]).shape[1]
    weights = torch.arange(1.0, 1.0 + classes, device=images.device)
    return pull_back(lambda moved: _call(model, moved), images, weights)


def _both(*names: str) -> frozenset[Any]:
    """The functions of torch and the methods of tensors with these names."""
    return frozenset(getattr(place, name) for name in names for place in (torch, Tensor) if hasattr(place, name))


_FLAT = _both("round", "floor", "ceil", "trunc", "fix", "sign", "sgn", "detach")
_FLOOR_DIVISIONS = _both("floor_divide", "__floordiv__")
_RISING = _both("gt", "ge", "greater", "greater_equal", "__gt__", "__ge__")
_FALLING = _both("lt", "le", "less", "less_equal", "__lt__", "__le__")
_CASTS = _both("to", "type", "float", "double", "half", "bfloat16", "int", "long", "short", "byte", "char", "bool")
_SCALAR = _both("mul", "add", "sub", "div", "true_divide", "__mul__", "__rmul__", "__add__", "__sub__", "__truediv__")
_EXITS = _both("numpy", "__array__", "tolist", "item")


class StraightThroughMode(TorchFunctionMode):
    """Straight-through gradients for inline steps."""

    def __init__(self) -> None:
        super().__init__()
        self._wanted = torch.is_grad_enabled()
        # What an integer or boolean tensor was made from, as long as it lives.
        self._made_from = WeakTensorKeyDictionary()

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Compute the function, and pass the gradient on where it would stop."""
        kwargs = kwargs or {}
        if not self._wanted:
            return func(*args, **kwargs)
        if func is torch._C._set_grad_enabled and not args[0]:
            return None  # a block without gradients stops them as rounding does
        source = args[0] if args and isinstance(args[0], Tensor) else None
        if func in _EXITS and source is not None:
            return func(source.detach(), *args[1:], **kwargs)  # outside torch no gradient can be passed on
        value = func(*args, **kwargs)
        if source is None or not isinstance(value, Tensor) or value.shape != source.shape:
            return value
        # Not by get, which has no types.
        known = self._made_from[source] if source in self._made_from else None  # noqa: SIM401
        origin = source if source.requires_grad else known
        return value if origin is None else self._carry(func, origin, value, source, args)

    def _carry(self, func: Any, origin: Tensor, value: Tensor, source: Tensor, args: tuple[Any, ...]) -> Tensor:
        """The value with the gradient of its origin; an integer value remembers its origin for later."""
        carrier: Tensor | None = None
        if func in _FLOOR_DIVISIONS:
            carrier = origin / args[1]
        elif func in _RISING:
            carrier = origin
        elif func in _FALLING:
            carrier = -origin
        elif func in _CASTS or (func in _FLAT and source.requires_grad):
            carrier = None if value.requires_grad and func in _CASTS else origin
        elif func in _SCALAR and not source.requires_grad:
            carrier = func(origin, *args[1:])
        if carrier is None:
            return value
        if not value.is_floating_point():
            self._made_from[value] = carrier
            return value
        return straight_through(lambda _: value.detach())(carrier.to(value.dtype))


class Opaque(nn.Module):
    """A module that ``StraightThroughMode`` does not enter, because it is replaced as a whole."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, inputs: Tensor) -> Tensor:
        """The module's own output, without a gradient."""
        with torch._C.DisableTorchFunction(), torch.no_grad():
            output: Tensor = self.module(inputs.detach())
        return output


class StraightThroughModel(nn.Module):
    """A model whose inline steps pass gradients on; the model is a submodule."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        """The model's own logits."""
        with StraightThroughMode():
            logits: Tensor = self.model(images)
        return logits
