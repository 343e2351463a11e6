"""The first look at the clean images: whether the model takes them, and whether the objective has a value there."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from maxmahal.attacks.answers import is_out_of_memory
from maxmahal.attacks.checks import AN_OBJECTIVE, name_of
from maxmahal.attacks.fold import short_reason
from maxmahal.attacks.objectives import Outputs
from maxmahal.attacks.oracle import Model, Oracle
from maxmahal.attacks.prepare import Prepared
from maxmahal.attacks.samples import Samples
from maxmahal.errors import ArgumentError, MaxmahalError

# What code raises that was given something it cannot work with; anything else is its own affair.
_DOES_NOT_FIT = (RuntimeError, ValueError, TypeError, IndexError, AssertionError)


def ask_first(model: Model, oracle: Oracle, samples: Samples) -> Outputs:
    """What the search model says about the clean images."""
    with told_apart(model, samples.images):
        answers = oracle.answers(samples.images, samples)
        if isinstance(model, Prepared) and _low_precision(model) is not None:
            with torch.no_grad():
                model.original(samples.images[:1])  # the search runs in float32, the verdict might not at all
    return answers


def check_first_values(oracle: Oracle, answers: Outputs, samples: Samples) -> None:
    """Refuse an objective that fails on the clean images, or is NaN there although the logits are finite."""
    name = name_of(oracle.objective)
    try:
        look = oracle.judged(answers, samples)
    except (*_DOES_NOT_FIT, AttributeError) as error:  # the last of one that takes outputs for a tensor
        if isinstance(error, MaxmahalError) or is_out_of_memory(error):
            raise
        raise ArgumentError(
            f"The objective {name} failed on the model's outputs ({short_reason(error)}); {AN_OBJECTIVE}"
        ) from error
    lost = look.values.isnan() & look.logits.isfinite().all(dim=1)
    if bool(lost.any()):
        raise ArgumentError(
            f"The objective {name} is NaN for {int(lost.sum())} of {len(lost)} clean images, though the model's logits "
            "are finite, so an attack on it would prove nothing; look for a division by 0 or a root of less than 0."
        )


@contextmanager
def told_apart(model: object, images: Tensor) -> Iterator[None]:
    """A model that cannot take these images is the caller's to mend, and says so in one sentence."""
    try:
        yield
    except _DOES_NOT_FIT as error:
        if isinstance(error, MaxmahalError) or is_out_of_memory(error):
            raise
        raise ArgumentError(
            f"The model cannot take {images.dtype} images of shape {tuple(images.shape)} ({short_reason(error)})"
            f"{_way_out(model, images)}."
        ) from error


def _way_out(model: object, images: Tensor) -> str:
    dtype = _low_precision(model)
    if dtype is not None:
        return f"; its weights are {dtype}: convert it with model.float()"
    if images.ndim == 4 and images.shape[3] in (1, 3) and images.shape[1] not in (1, 3):
        return "; images come as (n, channels, height, width): turn them with images.permute(0, 3, 1, 2)"
    return ""


def _low_precision(model: object) -> torch.dtype | None:
    """The type of a module's weights where it is narrower than float32."""
    module = model.original if isinstance(model, Prepared) else model
    parameters = module.parameters() if isinstance(module, nn.Module) else iter(())
    return next((each.dtype for each in parameters if each.dtype in (torch.bfloat16, torch.float16)), None)
