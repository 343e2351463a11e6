"""The contract between a network and a loss: features in, logits and a loss value out."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from maxmahal.errors import ArgumentError, NotFiniteError

_Kind = TypeVar("_Kind", bound="Head")
_Sizes = ParamSpec("_Sizes")


def _by_name(init: Callable[_Sizes, None]) -> Callable[_Sizes, None]:
    """Refuse sizes without their names from the ``__init__`` of a loss of one's own, too."""

    @wraps(init)
    def checked(*arguments: _Sizes.args, **sizes: _Sizes.kwargs) -> None:
        if len(arguments) > 1:
            raise ArgumentError(
                f"{type(arguments[0]).__name__} hands its sizes to Head without saying which is which; "
                "write super().__init__(num_classes=…, feature_dim=…)."
            )
        init(*arguments, **sizes)

    return checked


class Head(nn.Module, ABC):
    """A training loss together with the classifier it implies.

    ``head(features, labels)`` is the mean loss of the batch, ``head.logits(features)`` what the classifier predicts
    with. Whatever the loss needs (centers, a weight matrix) lives here as buffers and parameters.
    """

    def __new__(cls: type[_Kind], *arguments: object, **_: object) -> _Kind:
        """Refuse sizes without their names, which Python would answer with a count of arguments."""
        sizes = inspect.signature(cls.__init__).parameters.get("num_classes")
        if arguments and sizes is not None and sizes.kind is inspect.Parameter.KEYWORD_ONLY:
            given = ", ".join(str(each) if isinstance(each, int) else type(each).__name__ for each in arguments)
            raise ArgumentError(
                f"{cls.__name__}({given}) does not say which size is which, and nn.Linear has them the other way "
                f"round; write {cls.__name__}(num_classes=…, feature_dim=…)."
            )
        return super().__new__(cls)

    @_by_name
    def __init__(self, *, num_classes: int, feature_dim: int) -> None:
        super().__init__()
        if num_classes < 1 or feature_dim < 1:
            raise ArgumentError(f"num_classes and feature_dim must be at least 1; got {num_classes} and {feature_dim}.")
        self.num_classes = num_classes
        self.feature_dim = feature_dim

    @abstractmethod
    def per_sample(self, features: Float[Tensor, "n d"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """The loss of each sample: a pure function that changes nothing in the head."""

    @abstractmethod
    def logits(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n l"]:
        """One value a class; the largest is the prediction."""

    def forward(self, features: Float[Tensor, "n d"], labels: Int[Tensor, " n"]) -> Float[Tensor, ""]:
        """The mean loss of the batch."""
        self._check(features, labels)
        return self.per_sample(features, labels).mean()

    def _check(self, features: Tensor, labels: Tensor) -> None:
        name = type(self).__name__
        if features.ndim != 2 or features.shape[1] != self.feature_dim:
            raise ArgumentError(
                f"{name} expects features of shape (n, {self.feature_dim}); got {tuple(features.shape)}. "
                f"Give the head the width of the layer that feeds it."
            )
        if labels.shape != features.shape[:1]:
            raise ArgumentError(
                f"{name} expects one integer label for each of the {len(features)} features; "
                f"got labels of shape {tuple(labels.shape)}."
            )
        if labels.dtype != torch.int64:
            raise ArgumentError(f"Labels must be torch.int64; got {labels.dtype}. Convert them with labels.long().")
        if labels.device != features.device:
            raise ArgumentError(
                f"Features are on {features.device} and labels on {labels.device}; move one to the other's device."
            )
        # Reading values back from a GPU would stall it at every step; there, labels are checked once with the data set.
        if features.device.type == "cpu" and not torch.compiler.is_compiling():
            self._check_values(features, labels)

    def _check_values(self, features: Tensor, labels: Tensor) -> None:
        low, high = (int(value) for value in labels.aminmax()) if len(labels) else (0, 0)
        if low < 0 or high >= self.num_classes:
            raise ArgumentError(
                f"Labels must lie in 0..{self.num_classes - 1} because the head has {self.num_classes} classes; "
                f"got {low}..{high}. Renumber the labels or build the head with more classes."
            )
        if not bool(features.isfinite().all()):
            raise NotFiniteError(
                "Features hold NaN or infinity, so the loss has no meaning. "
                "Lower the learning rate, or look for bad values in the images."
            )
