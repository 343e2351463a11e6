"""What the networks share: the feature layer, the initial weights, the memory layout, ``torch.compile``."""

import types
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

Function = TypeVar("Function", bound=Callable[..., object])


class Float32Linear(nn.Linear):
    """A linear layer that stays in float32 under autocast: features and logits differ by little for their size."""

    def forward(self, input: Float[Tensor, "n k"]) -> Float[Tensor, "n d"]:
        """``nn.Linear`` in the precision of its own weights, whatever the caller's autocast."""
        with torch.autocast(input.device.type, enabled=False):
            return super().forward(input.to(self.weight.dtype))


def feature_layer(width: int, feature_dim: int | None) -> tuple[nn.Module, int]:
    """The linear layer that ends in the feature space, and the dimension it ends in.

    Features after ReLU and pooling are never negative, but all centers but one have negative coordinates.
    """
    if feature_dim is None:
        return nn.Identity(), width
    return Float32Linear(width, feature_dim), feature_dim


def to_channels_last(model: nn.Module) -> None:
    """Lay the kernels of convolutions out as fast convolutions read them."""
    for parameter in model.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)


def initialise(network: nn.Module) -> None:
    """He's initialisation for convolutions; the rest keeps PyTorch's defaults."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_in", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def compile_apart(function: Function, *, dynamic: bool, code: types.CodeType | None = None) -> Function:
    """``function`` compiled with our kernels, as a code object of its own: torch counts compilations by those.

    A function made anew for every call passes the same copy of its ``code`` each time.
    """
    known, names, name, closure = (getattr(function, f"__{part}__") for part in ("code", "globals", "name", "closure"))
    own: Function = types.FunctionType(code or known.replace(), names, name, None, closure)  # type: ignore[assignment]
    compiled: Function = torch.compile(own, dynamic=dynamic, options=_own_kernels())  # type: ignore[assignment]
    return compiled


@cache
def _own_kernels() -> dict[str, Any]:
    """The same object in every call: torch compiles a function again if its options differ."""
    if not (torch.cuda.is_available() and find_spec("triton") is not None):
        return {}
    # Imported here: it loads torch's compiler, and triton, which comes with GPU builds of torch alone.
    from maxmahal.models.small_convolutions import SmallConvolutions

    return {"post_grad_custom_pre_pass": SmallConvolutions()}
