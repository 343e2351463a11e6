"""Fingerprints: of a model by its weights, structure and code, of data by their bytes."""

import hashlib
import inspect
from collections.abc import Callable, Iterator
from itertools import chain
from types import ModuleType

import torch
from torch import Tensor, nn

from maxmahal.data import ImageData
from maxmahal.models import Classifier
from maxmahal.models.layers import Float32Linear

# Attributes of torch's own modules that change their output; others may be added by new versions of torch.
_ATTRIBUTES = frozenset(
    {
        "approximate", "ceil_mode", "dilation", "dim", "end_dim", "eps", "groups", "kernel_size", "mode",
        "negative_slope", "normalized_shape", "num_groups", "output_padding", "output_size", "p", "padding",
        "padding_mode", "scale_factor", "size", "start_dim", "stride",
    }
)  # fmt: skip


def fingerprint_model(model: nn.Module | Callable[[Tensor], Tensor]) -> str:
    """A hash of the weights, the structure and the code of the class."""
    digest = hashlib.sha256()
    kind = type(model) if isinstance(model, nn.Module) else model
    digest.update(short_name(kind).encode())
    if not isinstance(model, Classifier):
        digest.update(_source(kind).encode())
    if isinstance(model, nn.Module):
        for name, module in model.named_modules():
            digest.update(f"{name} {short_name(_kind(module))} {_options(module)}".encode())
            if not type(module).__module__.startswith(("torch.", "maxmahal.")):
                digest.update(_source(type(module)).encode())
        for name, value in model.state_dict().items():
            digest.update(name.encode() + (_content(value) if isinstance(value, Tensor) else repr(value).encode()))
    else:
        for part in _held_by(model):
            digest.update(part)
    return digest.hexdigest()[:32]


def _held_by(function: object) -> Iterator[bytes]:
    """The weights of a function: in its closure, bound object, arguments and attributes, and in lists and dicts."""
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    bound = [getattr(function, "__self__", None), getattr(function, "func", None)]
    given = [getattr(function, "args", ()), getattr(function, "keywords", {})]
    waiting: list[object] = [*cells, *bound, *given, *getattr(function, "__dict__", {}).values()]
    seen: set[int] = set()
    while waiting:
        value = waiting.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, nn.Module):
            yield fingerprint_model(value).encode()
        elif isinstance(value, Tensor):
            yield _content(value)
        elif isinstance(value, list | tuple):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
        elif hasattr(value, "__dict__") and not isinstance(value, type | ModuleType):
            waiting += vars(value).values()


def _kind(module: nn.Module) -> type[nn.Module]:
    """The class that defines what a module computes, whatever its precision."""
    return nn.Linear if isinstance(module, Float32Linear) else type(module)


def _options(module: nn.Module) -> list[tuple[str, object]]:
    """The options of a module: numbers, texts and tuples that are not part of the weights."""
    kind = _kind(module)
    built_in = kind.__module__.startswith("torch.")
    # An integer may be a counter that changes with every call: it counts only if it is named like an argument.
    arguments = set(inspect.signature(kind).parameters)
    return [
        (name, value)
        for name, value in sorted(vars(module).items())
        if (name in _ATTRIBUTES if built_in else name in arguments or isinstance(value, float | str | tuple))
        and isinstance(value, bool | int | float | str | tuple)
    ]


def _content(tensor: Tensor) -> bytes:
    values = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return f" {tensor.dtype} {tuple(tensor.shape)}".encode() + values


def fingerprint_data(data: ImageData) -> str:
    """A hash of the images, their labels, ids and class names."""
    digest = hashlib.sha256(repr((data.class_names, data.image_shape)).encode())
    for tensor in chain((block.images for block in data.blocks()), (data.labels, data.sample_ids)):
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:32]


def short_name(thing: object) -> str:
    """The name of a class or function, or of the class of an object."""
    return getattr(thing, "__qualname__", type(thing).__qualname__)


def _source(kind: object) -> str:
    try:
        return inspect.getsource(kind)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""  # typed into an interpreter, or built in: only its name is used
