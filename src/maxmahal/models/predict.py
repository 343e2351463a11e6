"""Run a model over a whole data set in batches, leaving it as it was found."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from maxmahal.data import ImageData, to_unit_range


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the block; every submodule's own mode is put back afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def map_batches(
    function: Callable[[Float[Tensor, "b c h w"]], Tensor], data: ImageData, batch_size: int = 500
) -> Shaped[Tensor, "n ..."]:
    """``function`` of every image in [0, 1], without gradients, joined in the data's order."""
    with torch.no_grad():
        return torch.cat([function(to_unit_range(images)) for images in torch.split(data.images, batch_size)])


def predict_labels(model: nn.Module, data: ImageData, batch_size: int = 500) -> Int[Tensor, " n"]:
    """The class with the largest logit for every image."""
    with eval_mode(model):
        return map_batches(lambda images: model(images).argmax(dim=1), data, batch_size)


def accuracy(model: nn.Module, data: ImageData, batch_size: int = 500) -> float:
    """Share of the images whose largest logit is the true class."""
    return float((predict_labels(model, data, batch_size) == data.labels).double().mean())
