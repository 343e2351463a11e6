"""What a model answers: logits that can be judged, or one sentence about why not."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Int
from torch import Tensor, nn

from maxmahal.attacks.prepare import Prepared
from maxmahal.attacks.prepare.folding import short_reason
from maxmahal.errors import ArgumentError, MaxmahalError

ONE_LOGIT = (
    "The model returns one logit per image; return two, such as torch.{join}([torch.zeros_like(z), z], dim=1), where z "
    "is what it returns now."
)


@contextmanager
def model_errors(model: object, images: Tensor) -> Iterator[None]:
    """Tell in one sentence what the code of a model raises; memory that runs out and Ctrl-C pass through."""
    try:
        yield
    except (Exception, SystemExit) as error:  # a model may raise anything, and must not end the process
        if isinstance(error, MaxmahalError) or is_out_of_memory(error):
            raise
        raise ArgumentError(
            f"The model cannot take {images.dtype} images of shape {tuple(images.shape)} ({short_reason(error)})"
            f"{way_out(model, images)}."
        ) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Whether trying again with fewer images could help."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    words = ("can't allocate memory", "not enough memory", "out of memory")
    return isinstance(error, RuntimeError) and any(each in str(error) for each in words)


def check_logits_of(logits: Tensor, count: int) -> None:
    """One row of logits for each image."""
    if isinstance(logits, Tensor) and logits.shape == (count,) and logits.is_floating_point():
        raise ArgumentError(ONE_LOGIT.format(join="stack"))
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != count:
        got = f"the shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
        raise ArgumentError(
            f"The model must return logits of shape ({count}, classes) for a batch of {count}; got {got}. "
            "Wrap it in a module that returns the logits alone."
        )
    if not logits.is_floating_point():
        raise ArgumentError(
            f"The model must return floating-point logits; got {logits.dtype}. "
            "Return what it computes before it rounds or chooses a class."
        )


def predicted_classes(logits: Tensor) -> Int[Tensor, " n"]:
    """The class with the largest logit, or -1 if a logit is NaN or infinite."""
    return torch.where(logits.isfinite().all(dim=1), logits.argmax(dim=1), -1)


def check_answers(predictions: Int[Tensor, " n"]) -> None:
    """Refuse NaN and infinite logits: a verdict on them has no meaning."""
    missing = predictions < 0
    if bool(missing.any()):
        raise ArgumentError(
            f"The model returned NaN or infinite logits for {int(missing.sum())} of {len(predictions)} images, so no "
            "verdict on them means anything; look for the layer that overflows."
        )


def check_unchanged(shown: Tensor, images: Tensor) -> None:
    """Refuse a model that has changed ``shown``, a copy of the images, in place."""
    if not torch.equal(shown, images):
        raise ArgumentError(
            "The model changes the images it is shown in place, so nothing measured on them would mean anything; "
            "let it work on a copy (images.clone())."
        )


def way_out(model: object, images: Tensor) -> str:
    """What to do about a model that cannot take these images, if that can be seen; empty otherwise."""
    module = model.original if isinstance(model, Prepared) else model
    parameters = module.parameters() if isinstance(module, nn.Module) else iter(())
    others = (each.dtype for each in parameters if each.is_floating_point() and each.dtype != images.dtype)
    if (dtype := next(others, None)) is not None:
        return f"; its weights are {dtype}: convert it with model.float()"
    if images.ndim == 4 and images.shape[3] in (1, 3) and images.shape[1] not in (1, 3):
        return "; images come as (n, channels, height, width): turn them with images.permute(0, 3, 1, 2)"
    return ""
