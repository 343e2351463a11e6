"""How coarsely a device rounds: full float32 for verdicts, TF32 where only a search is at stake."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


def is_coarse(device: torch.device) -> bool:
    """Whether torch may round more coarsely than float32 there: its convolutions do on a GPU unless told otherwise."""
    tf32 = any(part.fp32_precision == "tf32" for part in _tf32_parts(device))
    return tf32 or torch.is_autocast_enabled(device.type)


@contextmanager
def full_float32(device: torch.device) -> Iterator[None]:
    """No TF32 and no autocast inside."""
    with _float32_as("ieee", device):
        yield


@contextmanager
def quick_float32(device: torch.device) -> Iterator[None]:
    """TF32 on a GPU that has it, and no autocast inside: for searches whose finds are confirmed in full float32."""
    with _float32_as("tf32", device):
        yield


@contextmanager
def _float32_as(rounding: str, device: torch.device) -> Iterator[None]:
    parts = _tf32_parts(device)
    before = [part.fp32_precision for part in parts]
    try:
        for part in parts:
            part.fp32_precision = rounding
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        for part, precision in zip(parts, before, strict=True):
            part.fp32_precision = precision


def _tf32_parts(device: torch.device) -> tuple[Any, ...]:
    # Not by the older allow_tf32: reading it fails for a caller who has set fp32_precision; the other way round works.
    cudnn: Any = torch.backends.cudnn
    return (torch.backends.cuda.matmul, cudnn.conv, cudnn.rnn) if device.type == "cuda" else ()
