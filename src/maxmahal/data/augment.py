"""Augmentations by name, as batched tensor code on the device of the images: random crops, shifts, horizontal flips.

The caller draws ``uniforms``, ``columns`` numbers in [0, 1) per image, because they belong to the sample. For those in
this file they are three (vertical, horizontal, flip), and 0.5 everywhere changes nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int, Shaped, UInt8
from torch import Tensor
from torch.nn import functional as F

from maxmahal.data.idbh import COLUMNS, strong, weak
from maxmahal.data.types import to_unit_range
from maxmahal.errors import ArgumentError, check_choice

_PADDING = 4
_LARGEST_SHIFT = 0.1


@dataclass(frozen=True)
class Augmentation:
    """A function of images and of ``columns`` random numbers per image."""

    function: Callable[[Tensor, Tensor], Tensor]
    columns: int = 3

    def __call__(self, images: UInt8[Tensor, "n c h w"], uniforms: Float[Tensor, "n k"]) -> Float[Tensor, "n c h w"]:
        """The augmented images in [0, 1]."""
        if uniforms.shape != (len(images), self.columns):
            raise ArgumentError(
                f"uniforms must have the shape ({len(images)}, {self.columns}), {self.columns} for each image; got "
                f"{tuple(uniforms.shape)}."
            )
        if uniforms.device != images.device:
            raise ArgumentError(
                f"uniforms must be on the images' device; got {uniforms.device} and {images.device}. "
                "Move one with .to()."
            )
        return self.function(images, uniforms)


def pad_crop(
    images: Shaped[Tensor, "n c h w"], uniforms: Float[Tensor, "n 3"], *, flip: bool
) -> Shaped[Tensor, "n c h w"]:
    """Pad four black pixels on every side and crop at a random position; with ``flip`` mirror half of the images."""
    height, width = images.shape[2:]
    padded = F.pad(images, (_PADDING,) * 4)
    # The clamp guards against a uniform so near to 1 that the product rounds up.
    corners = (uniforms[:, :2] * (2 * _PADDING + 1)).long().clamp(max=2 * _PADDING)
    rows = corners[:, :1] + torch.arange(height, device=images.device)
    columns = corners[:, 1:] + _columns(width, uniforms, flip)
    return _take(_take(padded, 2, rows), 3, columns)


def shift(images: UInt8[Tensor, "n c h w"], uniforms: Float[Tensor, "n 3"], *, flip: bool) -> Float[Tensor, "n c h w"]:
    """Shift by up to a tenth of the height and width, by fractions of a pixel, and repeat the edge.

    With ``flip`` half of the images are mirrored as well: the augmentation of the paper's released code.
    """
    height, width = images.shape[2:]
    down = (2 * uniforms[:, :1] - 1) * (_LARGEST_SHIFT * height)
    right = (2 * uniforms[:, 1:2] - 1) * (_LARGEST_SHIFT * width)
    rows = torch.arange(height, device=images.device) - down
    columns = _columns(width, uniforms, flip) - right
    return _interpolate(_interpolate(images, 2, rows), 3, columns) / 255


def _moved(moves: Callable[[Tensor, Tensor], Tensor], images: Tensor, uniforms: Tensor) -> Tensor:
    return to_unit_range(moves(images, uniforms))


MOVES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "none": lambda images, _: images,
    "crop": partial(pad_crop, flip=False),
    "crop-flip": partial(pad_crop, flip=True),
}
"""The augmentations that only move pixels, for tensors of any type; outside the image they show 0."""

_AUGMENTATIONS: dict[str, Augmentation] = {
    **{name: Augmentation(partial(_moved, moves)) for name, moves in MOVES.items()},
    "shift": Augmentation(partial(shift, flip=False)),
    "shift-flip": Augmentation(partial(shift, flip=True)),
    "idbh-weak": Augmentation(weak, COLUMNS),
    "idbh-strong": Augmentation(strong, COLUMNS),
}


def augmentations() -> tuple[str, ...]:
    """The names that ``augmentation`` accepts."""
    return tuple(_AUGMENTATIONS)


def augmentation(name: str) -> Augmentation:
    """The augmentation of that name: from bytes NCHW and uniforms to float32 images in [0, 1]."""
    check_choice("augmentation", name, _AUGMENTATIONS)
    return _AUGMENTATIONS[name]


def _columns(width: int, uniforms: Float[Tensor, "n 3"], flip: bool) -> Int[Tensor, "n w"]:
    """The column of the original image that each output column shows; with ``flip`` half of the images are mirrored."""
    forward = torch.arange(width, device=uniforms.device)
    mirrored = (uniforms[:, 2] < 0.5) & flip
    return torch.where(mirrored[:, None], width - 1 - forward, forward)


def _take(images: Tensor, dim: int, indices: Int[Tensor, "n k"]) -> Tensor:
    """Rows (dim 2) or columns (dim 3) of each image, by indices per image."""
    shape = list(images.shape)
    shape[dim] = indices.shape[1]
    view = indices[:, None, :, None] if dim == 2 else indices[:, None, None, :]
    return images.gather(dim, view.expand(shape))


def _interpolate(images: Tensor, dim: int, positions: Float[Tensor, "n k"]) -> Float[Tensor, "n c h w"]:
    """Linear interpolation between rows or columns; positions outside the image take the value of its edge.

    Unlike ``grid_sample`` it is exact at whole pixels, and its rounding does not depend on the place in the batch.
    """
    before = positions.floor()
    last = images.shape[dim] - 1
    low = _take(images, dim, before.long().clamp(0, last)).to(torch.float32)
    high = _take(images, dim, before.long().add(1).clamp(0, last)).to(torch.float32)
    weight = (positions - before).to(torch.float32)
    return low + (weight[:, None, :, None] if dim == 2 else weight[:, None, None, :]) * (high - low)
