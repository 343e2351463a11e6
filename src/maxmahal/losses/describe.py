"""What a head shows of itself when it is printed."""

from torch import Tensor

from maxmahal.models.head import Head


def describe(head: Head, *settings: str) -> str:
    """The sizes of a head, and those of its settings that are named."""
    own = [f"{name}={_shown(getattr(head, name))}" for name in settings]
    return ", ".join([f"classes={head.num_classes}", f"dim={head.feature_dim}", *own])


def _shown(value: object) -> str:
    if isinstance(value, Tensor):
        return "unknown" if value.is_meta else f"{float(value):g}"
    return f"{value:g}" if isinstance(value, float) else str(value)
