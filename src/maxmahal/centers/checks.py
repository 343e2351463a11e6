"""The rules that every builder of centers shares, each with the sentence a caller reads when it is broken."""

import math

import torch

from maxmahal.errors import ArgumentError


def require_norm(name: str, value: object) -> None:
    """Refuse a length that is not positive and finite."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value <= 0:
        raise ArgumentError(f"{name} must be a positive, finite number, such as the paper's 10; got {value!r}.")


def require_floating(dtype: torch.dtype) -> None:
    """Refuse a type that would round the coordinates of a center to whole numbers."""
    if not dtype.is_floating_point:
        raise ArgumentError(f"dtype must be a floating-point type, such as torch.float32; got {dtype}.")
