"""Random crops, shifts and mirrors as batched tensor code, on whatever device the images are.

Every function here is pure: ``uniforms`` are three numbers in [0, 1) for each image (vertical, horizontal, mirror),
drawn by the caller because they belong to the sample. Three halves leave an image as it is.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor
from torch.nn import functional as F

from maxmahal.data.types import to_unit_range
from maxmahal.errors import ArgumentError, did_you_mean

_PADDING = 4
_LARGEST_SHIFT = 0.1

Augmentation = Callable[[UInt8[Tensor, "n c h w"], Float[Tensor, "n 3"]], Float[Tensor, "n c h w"]]


def unchanged(images: UInt8[Tensor, "n c h w"], uniforms: Float[Tensor, "n 3"]) -> Float[Tensor, "n c h w"]:
    """The images themselves, in [0, 1]."""
    _check(images, uniforms)
    return to_unit_range(images)


def pad_crop(images: UInt8[Tensor, "n c h w"], uniforms: Float[Tensor, "n 3"]) -> Float[Tensor, "n c h w"]:
    """Pad four black pixels on every side and cut the original size out at a random place."""
    _check(images, uniforms)
    return _crop(images, uniforms, mirror=torch.zeros_like(uniforms[:, 2], dtype=torch.bool))


def pad_crop_flip(images: UInt8[Tensor, "n c h w"], uniforms: Float[Tensor, "n 3"]) -> Float[Tensor, "n c h w"]:
    """``pad_crop``, then mirror every second image left to right."""
    _check(images, uniforms)
    return _crop(images, uniforms, mirror=uniforms[:, 2] < 0.5)


def shift(images: UInt8[Tensor, "n c h w"], uniforms: Float[Tensor, "n 3"]) -> Float[Tensor, "n c h w"]:
    """Move by up to a tenth of the height and width, any fraction of a pixel, repeating the edge."""
    _check(images, uniforms)
    return _shift(images, uniforms, mirror=torch.zeros_like(uniforms[:, 2], dtype=torch.bool))


def shift_flip(images: UInt8[Tensor, "n c h w"], uniforms: Float[Tensor, "n 3"]) -> Float[Tensor, "n c h w"]:
    """``shift``, then mirror every second image left to right: the augmentation of the paper's released code."""
    _check(images, uniforms)
    return _shift(images, uniforms, mirror=uniforms[:, 2] < 0.5)


_AUGMENTATIONS: dict[str, Augmentation] = {
    "none": unchanged,
    "crop": pad_crop,
    "crop-flip": pad_crop_flip,
    "shift": shift,
    "shift-flip": shift_flip,
}


def augmentations() -> tuple[str, ...]:
    """The names ``augmentation`` knows."""
    return tuple(_AUGMENTATIONS)


def augmentation(name: str) -> Augmentation:
    """The augmentation of that name: a function of bytes NCHW and uniforms (n, 3) to float32 images in [0, 1]."""
    if name not in _AUGMENTATIONS:
        raise ArgumentError(f"Unknown augmentation '{name}': {did_you_mean(name, _AUGMENTATIONS)}")
    return _AUGMENTATIONS[name]


def _check(images: Tensor, uniforms: Tensor) -> None:
    if uniforms.shape != (len(images), 3):
        raise ArgumentError(
            f"uniforms must have the shape ({len(images)}, 3), three for each image; got {tuple(uniforms.shape)}."
        )
    if uniforms.device != images.device:
        raise ArgumentError(
            f"uniforms must be on the images' device; got {uniforms.device} and {images.device}. Move one with .to()."
        )


def _columns(width: int, mirror: Bool[Tensor, " n"]) -> Int[Tensor, "n w"]:
    """The column of the unmirrored image that each output column shows."""
    forward = torch.arange(width, device=mirror.device)
    return torch.where(mirror[:, None], width - 1 - forward, forward)


def _take(images: Tensor, dim: int, indices: Int[Tensor, "n k"]) -> Tensor:
    """Rows (dim 2) or columns (dim 3) of each image by its own list of indices."""
    shape = list(images.shape)
    shape[dim] = indices.shape[1]
    view = indices[:, None, :, None] if dim == 2 else indices[:, None, None, :]
    return images.gather(dim, view.expand(shape))


def _crop(
    images: UInt8[Tensor, "n c h w"], uniforms: Float[Tensor, "n 3"], mirror: Bool[Tensor, " n"]
) -> Float[Tensor, "n c h w"]:
    height, width = images.shape[2:]
    padded = F.pad(images, (_PADDING,) * 4)
    # The clamp guards against a uniform so near to 1 that the product rounds up.
    corners = (uniforms[:, :2] * (2 * _PADDING + 1)).long().clamp(max=2 * _PADDING)
    rows = corners[:, :1] + torch.arange(height, device=images.device)
    columns = corners[:, 1:] + _columns(width, mirror)
    return to_unit_range(_take(_take(padded, 2, rows), 3, columns))


def _shift(
    images: UInt8[Tensor, "n c h w"], uniforms: Float[Tensor, "n 3"], mirror: Bool[Tensor, " n"]
) -> Float[Tensor, "n c h w"]:
    height, width = images.shape[2:]
    down = (2 * uniforms[:, :1] - 1) * (_LARGEST_SHIFT * height)
    right = (2 * uniforms[:, 1:2] - 1) * (_LARGEST_SHIFT * width)
    rows = torch.arange(height, device=images.device) - down
    columns = _columns(width, mirror) - right
    return _interpolate(_interpolate(images, 2, rows), 3, columns) / 255


def _interpolate(images: Tensor, dim: int, positions: Float[Tensor, "n k"]) -> Float[Tensor, "n c h w"]:
    """Values between two rows or columns; positions outside the image take its edge.

    Bilinear sampling is this in both directions. Unlike ``grid_sample`` it returns whole-pixel positions exactly, and
    its separate sums and products round alike wherever a sample stands in the batch.
    """
    before = positions.floor()
    last = images.shape[dim] - 1
    low = _take(images, dim, before.long().clamp(0, last)).to(torch.float32)
    high = _take(images, dim, before.long().add(1).clamp(0, last)).to(torch.float32)
    weight = (positions - before).to(torch.float32)
    return low + (weight[:, None, :, None] if dim == 2 else weight[:, None, None, :]) * (high - low)
