"""The type of every data set: uint8 images and labels, in memory, on one device; and its split for validation."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from maxmahal.errors import ArgumentError, DataError
from maxmahal.random import generator


@dataclass(frozen=True, repr=False)
class ImageData:
    """A whole data set in memory (or on the GPU): NCHW bytes, integer labels, class names, perhaps superclasses.

    ``sample_ids`` number the samples in the original file, so that a subset keeps each sample's own random numbers.
    """

    name: str
    images: UInt8[Tensor, "n c h w"]
    labels: Int[Tensor, " n"]
    class_names: tuple[str, ...]
    sample_ids: Int[Tensor, " n"]
    coarse_labels: Int[Tensor, " n"] | None = None
    coarse_names: tuple[str, ...] = ()
    superclasses: tuple[int, ...] | None = None
    """The superclass of each class; a property of the data set, so a subset keeps it for all classes."""

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.ndim != 4:
            raise DataError(
                f"{self.name}: images must be bytes of shape (n, channels, height, width); got {self.images.dtype} of "
                f"shape {tuple(self.images.shape)}. Multiply images in [0, 1] by 255, round, convert to torch.uint8."
            )
        if len(self.labels) != len(self.images) or len(self.sample_ids) != len(self.images):
            raise DataError(
                f"{self.name}: {len(self.images)} images but {len(self.labels)} labels and "
                f"{len(self.sample_ids)} sample ids; every image needs one of each."
            )
        for text in (self.name, *self.class_names):
            if not isinstance(text, str) or text.encode(errors="replace").decode() != text:
                raise DataError(f"{self.name!r}: {text!r} is not a text that a file can hold; rename it.")
        if len(self.labels):
            low, high = int(self.labels.min()), int(self.labels.max())
            if low < 0 or high >= self.num_classes:
                raise DataError(
                    f"{self.name}: labels must lie in 0..{self.num_classes - 1} because there are {self.num_classes} "
                    f"class names; found {low}..{high}. Renumber the labels or name every class."
                )

    @classmethod
    def from_arrays(
        cls,
        name: str,
        images: UInt8[Tensor, "n c h w"],
        labels: Int[Tensor, " n"],
        class_names: Sequence[str],
    ) -> "ImageData":
        """Build from tensors, numbering the samples 0, 1, 2, …"""
        return cls(
            name=name,
            images=images.contiguous(),
            labels=labels.to(torch.int64),
            class_names=tuple(class_names),
            sample_ids=torch.arange(len(images), device=images.device),
        )

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.image_shape))
        return f"{type(self).__name__}({self.name}, {len(self):,} images of {shape}, {self.num_classes:,} classes)"

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return len(self.class_names)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        channels, height, width = self.images.shape[1:]
        return channels, height, width

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self.labels.device

    def select(self, indices: Int[Tensor, " m"]) -> "ImageData":
        """The samples at ``indices``, in that order, with their ids."""
        indices = indices.to(self.device)
        return self._change(lambda tensor: tensor[indices])

    def first(self, count: int | None) -> "ImageData":
        """The first ``count`` samples, or all of them for None."""
        return self if count is None or count >= len(self) else self.select(torch.arange(count))

    def to(self, device: torch.device | str) -> "ImageData":
        """The same data on another device."""
        return self._change(lambda tensor: tensor.to(device))

    def blocks(self, count: int = 500) -> Iterator["ImageData"]:
        """All samples in memory, so many at a time."""
        for start in range(0, len(self), count):
            yield self.select(torch.arange(start, min(start + count, len(self)))).to(self.device)

    def _change(self, change: Callable[[Tensor], Tensor]) -> "ImageData":
        names = ("images", "labels", "sample_ids", "coarse_labels")
        changed: dict[str, Any] = {name: change(old) for name in names if (old := getattr(self, name)) is not None}
        return replace(self, **changed)

    def float_images(self) -> Float[Tensor, "n c h w"]:
        """The images as float32 in [0, 1], the input of the models."""
        return to_unit_range(self.images)


def train_validation_split(data: ImageData, validation: int, seed: int) -> tuple[ImageData, ImageData]:
    """Hold out ``validation`` images, drawn by ``seed``, in proportion to the classes (to within one).

    Every class that has images keeps at least one for training; larger classes give the missing ones. Sample ids and
    the order of the images stay.
    """
    labels = data.labels.cpu()
    counts = torch.bincount(labels, minlength=data.num_classes)
    most = (counts - 1).clamp(min=0)
    if not 0 <= validation <= int(most.sum()):
        raise ArgumentError(
            f"validation must lie in 0..{int(most.sum())} because {data.name} has {len(data)} images and each class "
            f"must keep one for training; got {validation}."
        )
    # The rest after rounding goes to the largest remainders.
    shares, size = counts * validation, max(len(labels), 1)
    quotas, remainders = shares // size, shares % size
    quotas[remainders.argsort(descending=True, stable=True)[: validation - int(quotas.sum())]] += 1
    quotas = quotas.minimum(most)
    for _ in range(validation - int(quotas.sum())):
        quotas[(most - quotas).argmax()] += 1
    order = torch.randperm(len(data), generator=generator(seed, "validation split"))
    chosen = torch.zeros(len(data), dtype=torch.bool)
    for label, quota in enumerate(quotas.tolist()):
        chosen[order[labels[order] == label][:quota]] = True
    return data.select((~chosen).nonzero().squeeze(1)), data.select(chosen.nonzero().squeeze(1))


def disagreement(train: ImageData, test: ImageData) -> str | None:
    """Why two splits are not of one data set, or None if they are."""
    if train.image_shape != test.image_shape:
        return f"images are {train.image_shape} in train, {test.image_shape} in test"
    if train.class_names != test.class_names:
        return "the classes differ between train and test"
    return None


def to_unit_range(images: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
    """Bytes 0..255 as float32 in [0, 1]."""
    return images.to(torch.float32) / 255
