"""Channels first or last: why a model cannot take images, where that is sure to be the reason."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

CHANNELS = (1, 3)


def explain_layout(
    model: nn.Module | Callable[[Tensor], Tensor], images: Float[Tensor, "n c h w"], target: str, data: str
) -> str:
    """Which of the two has its channels last, the shape and the way out; empty where something else may be wrong.

    ``model`` has already failed on ``images``; ``target`` and ``data`` are what the user calls them.
    """
    channels, height, width = images.shape[1:]
    seen = f"(n, {channels}, {height}, {width})"
    if _channels_last(model, images):
        return (
            f"The images of {data} have the shape {seen}, with their channels last, and {target} is shown images with "
            "their channels first (n, c, h, w); pass images.permute(0, 3, 1, 2)."
        )
    if channels in CHANNELS and _made_for(model, channels) and _takes(model, images.permute(0, 2, 3, 1)):
        return (
            f"{target} takes images with channels last, and those of {data} are shown to it with channels first, in "
            f"the shape {seen}; let it begin with images.permute(0, 2, 3, 1)."
        )
    return ""


def _channels_last(model: nn.Module | Callable[[Tensor], Tensor], images: Float[Tensor, "n c h w"]) -> bool:
    """Three at the end are colours; a single one may also be the width of a signal (n, c, length, 1)."""
    _, first, _, last = images.shape
    if last not in CHANNELS or first in CHANNELS:
        return False
    return last == 3 or _takes(model, images.permute(0, 3, 1, 2))


def _made_for(model: nn.Module | Callable[[Tensor], Tensor], channels: int) -> bool:
    """Whether a convolution takes so many channels; one made for as many as images have rows takes turned ones too."""
    layers = model.modules() if isinstance(model, nn.Module) else ()
    taken = {layer.in_channels for layer in layers if isinstance(layer, nn.Conv2d)}
    return not taken or channels in taken


def _takes(model: nn.Module | Callable[[Tensor], Tensor], images: Tensor) -> bool:
    try:
        with torch.no_grad():
            logits = model(images.contiguous())
    except Exception:  # as on the images before: a stranger's model may raise anything
        return False
    return isinstance(logits, Tensor) and logits.ndim == 2 and len(logits) == len(images)
