"""What identifies and reproduces a number: fingerprints of model and data; versions, device, commit, command."""

import hashlib
import inspect
import platform
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from torch import Tensor, nn

from maxmahal.data import ImageData
from maxmahal.models import Classifier
from maxmahal.models.layers import Float32Linear
from maxmahal.settings import Table
from maxmahal.version import __version__

_SEEN = 10_000
_CHECKOUT = Path(__file__).resolve().parents[3]  # that the package runs from, unless it is installed
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
    """A hash of the images, or of 10,000 of them all over the data, and of all labels, ids and class names.

    Every shard and worker computes it: if all of them read a million images, that would take longer than their share.
    """
    digest = hashlib.sha256(repr((data.class_names, data.image_shape)).encode())
    some = data if len(data) <= _SEEN else data.select(torch.arange(_SEEN) * len(data) // _SEEN)
    for tensor in chain((block.images for block in some.blocks()), (data.labels, data.sample_ids)):
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


def describe_environment(device: torch.device, command: str) -> Table:
    """As the records keep it."""
    versions = {"maxmahal": __version__, "torch": torch.__version__, "numpy": np.__version__}
    return {
        "versions": {**versions, "python": platform.python_version()},
        "device": describe_device(device),
        "threads": torch.get_num_threads(),
        "commit": commit_of(_CHECKOUT),
        "command": command,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def describe_device(device: torch.device) -> str:
    """Such as "cpu" or "NVIDIA H200"."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def as_command(targets: Sequence[str], suite: str, data: str, options: Mapping[str, object]) -> str:
    """The command line that does what a call from Python did."""
    words = ["maxmahal", "evaluate", *targets, "--suite", suite, "--data", data]
    for name, value in options.items():
        for each in value if isinstance(value, list) else [value]:  # a list is an option given several times
            if each is True:
                words.append(f"--{name}")
            elif each is not None and each is not False:
                words += [f"--{name}", str(each)]
    return shlex.join(words)


def commit_of(root: Path) -> str:
    """Of the checkout in that folder, read without starting git, which may run what a repository says; else empty."""
    git = root / ".git"
    try:
        if git.is_file():  # a worktree's folder is elsewhere
            git = root / git.read_text(encoding="utf-8").removeprefix("gitdir: ").strip()
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref: "):
            return _short(head)
        common = git / "commondir"
        shared = git / common.read_text(encoding="utf-8").strip() if common.is_file() else git
        ref = head.removeprefix("ref: ")
        if (shared / ref).is_file():
            return _short((shared / ref).read_text(encoding="utf-8"))
        packed = (shared / "packed-refs").read_text(encoding="utf-8").splitlines()
        return next((_short(line) for line in packed if line.endswith(f" {ref}")), "")
    except (OSError, UnicodeDecodeError):
        return ""


def _short(commit: str) -> str:
    """The first digits of a commit's name, or nothing if it is none."""
    found = re.match(r"[0-9a-f]{12}", commit)
    return found[0] if found else ""
