"""Whether what a model or an objective has answered can be worked with."""

import torch
from jaxtyping import Int
from torch import Tensor

from maxmahal.errors import ArgumentError


def check_answers(predictions: Int[Tensor, " n"]) -> None:
    """Refuse NaN: a verdict on it would be an accident."""
    missing = predictions < 0
    if bool(missing.any()):
        raise ArgumentError(
            f"The model returned NaN for {int(missing.sum())} of {len(predictions)} images, so no verdict on them "
            "means anything; look for the layer that overflows."
        )


def is_out_of_memory(error: Exception) -> bool:
    """Whether trying again with fewer images could help."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return any(words in str(error) for words in ("can't allocate memory", "not enough memory", "out of memory"))


def check_logits_of(logits: Tensor, count: int) -> None:
    """One row of logits for each image."""
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != count:
        got = f"the shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
        raise ArgumentError(
            f"The model must return logits of shape ({count}, classes) for a batch of {count}; got {got}. "
            "Wrap it in a module that returns the logits alone."
        )


def check_values_of(values: Tensor, count: int) -> None:
    """One value of the objective for each image."""
    if not isinstance(values, Tensor) or values.shape != (count,):
        got = f"the shape {tuple(values.shape)}" if isinstance(values, Tensor) else f"a {type(values).__name__}"
        raise ArgumentError(
            f"The objective must return one value for each image of a batch of {count}; got {got}. "
            "Leave out the mean or sum."
        )
