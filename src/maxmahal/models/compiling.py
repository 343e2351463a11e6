"""``torch.compile`` as this package uses it."""

import types
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., object])


def compile_apart(function: Function, *, dynamic: bool) -> Function:
    """``function`` compiled with our kernels, as a code object of its own: torch counts compilations by those."""
    code, names, name, closure = (getattr(function, f"__{part}__") for part in ("code", "globals", "name", "closure"))
    own: Function = types.FunctionType(code.replace(), names, name, None, closure)  # type: ignore[assignment]
    options: dict[str, Any] = {}
    if torch.cuda.is_available() and find_spec("triton") is not None:
        # Imported here: it loads torch's compiler, and triton, which comes with GPU builds of torch alone.
        from maxmahal.models.small_convolutions import SmallConvolutions

        options["post_grad_custom_pre_pass"] = SmallConvolutions()
    compiled: Function = torch.compile(own, dynamic=dynamic, options=options)  # type: ignore[assignment]
    return compiled
