"""Hold out training images for validation."""

import torch
from jaxtyping import Int
from torch import Tensor

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
    quotas = _quotas(torch.bincount(labels, minlength=data.num_classes), validation)
    order = torch.randperm(len(data), generator=generator(seed, "validation split"))
    chosen = torch.zeros(len(data), dtype=torch.bool)
    for label, quota in enumerate(quotas.tolist()):
        chosen[order[labels[order] == label][:quota]] = True
    return data.select((~chosen).nonzero().squeeze(1)), data.select(chosen.nonzero().squeeze(1))


def _quotas(counts: Int[Tensor, " l"], total: int) -> Int[Tensor, " l"]:
    """``total`` divided in proportion to ``counts``; the rest after rounding goes to the largest remainders."""
    size = max(int(counts.sum()), 1)
    quotas = counts * total // size
    remainders = counts * total % size
    left_over = total - int(quotas.sum())
    quotas[remainders.argsort(descending=True, stable=True)[:left_over]] += 1
    return quotas
