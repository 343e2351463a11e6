"""Hold out training images for validation."""

import torch

from maxmahal.data.types import ImageData
from maxmahal.errors import ArgumentError
from maxmahal.random import generator


def train_validation_split(data: ImageData, validation: int, seed: int) -> tuple[ImageData, ImageData]:
    """Hold out ``validation`` images, stratified by class (to within one image), drawn by ``seed``.

    Both splits keep the order and the sample ids of ``data``. CIFAR-10 with 5,000: 4,500 and 500 of every class.
    """
    if not 0 <= validation < max(len(data), 1):
        raise ArgumentError(
            f"validation must lie in 0..{max(len(data) - 1, 0)} because {data.name} has {len(data)} images and some "
            f"must remain for training; got {validation}."
        )
    labels = data.labels.cpu()
    # In proportion to the classes; the rest after rounding goes to the largest remainders.
    shares, size = torch.bincount(labels, minlength=data.num_classes) * validation, max(len(labels), 1)
    quotas, remainders = shares // size, shares % size
    quotas[remainders.argsort(descending=True, stable=True)[: validation - int(quotas.sum())]] += 1
    order = torch.randperm(len(data), generator=generator(seed, "validation split"))
    chosen = torch.zeros(len(data), dtype=torch.bool)
    for label, quota in enumerate(quotas.tolist()):
        chosen[order[labels[order] == label][:quota]] = True
    return data.select((~chosen).nonzero().squeeze(1)), data.select(chosen.nonzero().squeeze(1))
