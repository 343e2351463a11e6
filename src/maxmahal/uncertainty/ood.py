"""Out-of-distribution images: transformed test images, or another data set in the model's size."""

from collections.abc import Callable
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from maxmahal.data import ImageData, load_dataset
from maxmahal.errors import DataError
from maxmahal.random import random_bits

_GREY = (0.299, 0.587, 0.114)


def scrambled(images: Float[Tensor, "n c h w"], data: ImageData) -> Float[Tensor, "n c h w"]:
    """The pixels of each image in a random order."""
    size = images.shape[2] * images.shape[3]
    order = random_bits(data.sample_ids, (size,), "scrambled").argsort(dim=1)
    flat = images.flatten(2)
    return flat.gather(2, order[:, None].expand_as(flat)).view_as(images)


CHANGES: dict[str, Callable[[Tensor, ImageData], Tensor]] = {
    "inverted": lambda images, _: 1 - images,
    "turned": lambda images, data: fit(images.rot90(1, dims=(2, 3)), data.image_shape),
    "shifted": lambda images, _: images.roll(images.shape[3] // 2, dims=3),  # by half of the width, cyclically
    "scrambled": scrambled,
}
"""Ways to turn test images into out-of-distribution ones, by name."""


def ood_images(name: str, data: ImageData, data_dir: str | Path | None = None) -> Float[Tensor, "n c h w"]:
    """As many images as ``data`` has, or fewer: one of ``CHANGES``, or the test part of another data set."""
    if name in CHANGES:
        return CHANGES[name](data.float_images(), data)
    if name == data.name:
        raise DataError(f"--ood {name} is the data that the model was trained on; name another data set.")
    other = load_dataset(name, "test", data_dir).first(len(data)).to(data.device)
    return fit(other.float_images(), data.image_shape)


def fit(images: Float[Tensor, "n c h w"], shape: tuple[int, int, int]) -> Float[Tensor, "n k u v"]:
    """Converted to this number of channels and resized."""
    channels, height, width = shape
    if images.shape[1] == 3 and channels == 1:
        weights = torch.tensor(_GREY, device=images.device).view(1, 3, 1, 1)
        images = (images * weights).sum(dim=1, keepdim=True)
    elif images.shape[1] != channels:
        images = images.mean(dim=1, keepdim=True).expand(-1, channels, -1, -1)
    if images.shape[2:] == (height, width):
        return images
    if images.shape[2] >= height and images.shape[3] >= width:
        return F.adaptive_avg_pool2d(images, (height, width))
    return F.interpolate(images, (height, width), mode="bilinear", align_corners=False)
