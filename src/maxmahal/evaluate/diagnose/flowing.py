"""Gradients for steps that have none where they are written inside a forward, and cannot be wrapped as a module.

Inside ``Flowing`` rounding and its relatives keep their values and pass the gradient on as if they were the identity;
so do ``detach``, a block without gradients, and a round trip through integers or comparisons.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from maxmahal.attacks import straight_through


def _both(*names: str) -> frozenset[Any]:
    """The functions of torch and the methods of tensors that go by these names."""
    return frozenset(getattr(place, name) for name in names for place in (torch, Tensor) if hasattr(place, name))


_FLAT = _both("round", "floor", "ceil", "trunc", "fix", "sign", "sgn", "detach")
_FLOOR_DIVISIONS = _both("floor_divide", "__floordiv__")
_RISING = _both("gt", "ge", "greater", "greater_equal", "__gt__", "__ge__")
_FALLING = _both("lt", "le", "less", "less_equal", "__lt__", "__le__")
_CASTS = _both("to", "type", "float", "double", "half", "bfloat16", "int", "long", "short", "byte", "char", "bool")
_SCALAR = _both("mul", "add", "sub", "div", "true_divide", "__mul__", "__rmul__", "__add__", "__sub__", "__truediv__")
_DEPARTURES = _both("numpy", "__array__", "tolist", "item")


class Flowing(TorchFunctionMode):
    """Straight-through gradients for inline steps; ``count`` says how many would have stopped one."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self._wanted = torch.is_grad_enabled()
        # What an integer or boolean tensor was made from, as long as it lives.
        self._made_from = WeakTensorKeyDictionary()

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Compute what was asked, and carry the gradient past it where it would stop."""
        kwargs = kwargs or {}
        if not self._wanted:
            return func(*args, **kwargs)
        if func is torch._C._set_grad_enabled and not args[0]:
            self.count += 1
            return None  # a block without gradients hides them just as rounding does
        subject = args[0] if args and isinstance(args[0], Tensor) else None
        if func in _DEPARTURES and subject is not None:
            return func(subject.detach(), *args[1:], **kwargs)  # outside torch nothing can be carried
        value = func(*args, **kwargs)
        if subject is None or not isinstance(value, Tensor) or value.shape != subject.shape:
            return value
        origin = subject if subject.requires_grad else self._origin(subject)
        return value if origin is None else self._carry(func, origin, value, subject, args)

    def _origin(self, subject: Tensor) -> Tensor | None:
        return self._made_from[subject] if subject in self._made_from else None  # noqa: SIM401 - its get has no types

    def _carry(self, func: Any, origin: Tensor, value: Tensor, subject: Tensor, args: tuple[Any, ...]) -> Tensor:
        """The value with the gradient of what it was made from, or a note of that where it cannot have one yet."""
        carrier: Tensor | None = None
        if func in _FLOOR_DIVISIONS:
            carrier = origin / args[1]
        elif func in _RISING:
            carrier = origin
        elif func in _FALLING:
            carrier = -origin
        elif func in _CASTS or (func in _FLAT and subject.requires_grad):
            carrier = None if value.requires_grad and func in _CASTS else origin
        elif func in _SCALAR and not subject.requires_grad:
            carrier = func(origin, *args[1:])
        if carrier is None:
            return value
        if not value.is_floating_point():
            self._made_from[value] = carrier
            return value
        self.count += 1
        carried: Tensor = straight_through(lambda _: value.detach())(carrier.to(value.dtype))
        return carried


class Outside(nn.Module):
    """A module that ``Flowing`` does not reach into, for one that is passed by as a whole."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, inputs: Tensor) -> Tensor:
        """The module's own output, without a gradient."""
        with torch._C.DisableTorchFunction(), torch.no_grad():
            output: Tensor = self.module(inputs.detach())
        return output


class FlowingModel(nn.Module):
    """A model whose inline steps pass gradients on; the model is a submodule."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        """The model's own logits."""
        with Flowing():
            logits: Tensor = self.model(images)
        return logits
