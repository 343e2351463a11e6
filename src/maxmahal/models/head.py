"""The contract between a network and a loss: features in, logits and a loss value out."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Literal, NamedTuple, ParamSpec, TypeVar

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


class DistanceLoss(NamedTuple):
    """A loss that depends on nothing but the distance to the label's center: scale·(½‖z - μ_y‖² + shift_y)."""

    centers: Float[Tensor, "l d"]
    scale: float
    shifts: Float[Tensor, " l"]


class QuadraticLogits(NamedTuple):
    """Logits -σ_k‖z - μ_k‖² + B_k (paper Eq. 4) of a loss that is their softmax cross-entropy (Eq. 3)."""

    centers: Float[Tensor, "l d"]
    precisions: Float[Tensor, " l"]
    biases: Float[Tensor, " l"]


class Head(nn.Module, ABC):
    """A training loss together with the classifier it implies.

    ``head(features, labels)`` is the mean loss of the batch, ``head.logits(features)`` what the classifier predicts
    with. The attributes and properties below say what other code needs to know: it never checks a head's class.
    """

    printed_settings: tuple[str, ...] = ()
    """The attributes that ``print`` shows beside the sizes."""
    has_preset_centers: bool = False
    """Whether it was given its centers; the paper's protocol attacks such a head through its own loss."""
    zero_is_boundary: bool = False
    """Whether the losses of two classes are equal exactly where their logits are."""
    divergence: Literal["kl", "features"] = "kl"
    """How far two outputs are apart in the sense of this loss: KL of the softmax, or ½‖z - z'‖²; for TRADES."""
    label_smoothing: float = 0.0
    """The share of a softmax loss for the mean over all classes."""
    zero_at_centers: bool = False
    """Whether the loss is 0 only where each feature is at its class's center, and the centers never move."""
    add_up: Callable[[Sequence[Tensor]], None] = staticmethod(lambda _: None)
    """Replaces tensors by their sums over all processes of a training, for a loss that moves its buffers."""

    def __new__(cls: type[_Kind], *arguments: object, **settings: object) -> _Kind:
        """Refuse sizes without their names or in place of centers, which Python would answer with a count."""
        known, name = inspect.signature(cls.__init__).parameters, cls.__name__
        if "centers" in known and isinstance(first := [*arguments, settings.get("num_classes")][0], int):
            dim = arguments[1] if len(arguments) > 1 else settings.get("feature_dim", "dim")
            raise ArgumentError(f"{name} takes centers, not sizes: {name}(max_mahalanobis_centers({first}, {dim})).")
        sizes = known.get("num_classes")
        if arguments and sizes is not None and sizes.kind is inspect.Parameter.KEYWORD_ONLY:
            given = ", ".join(str(each) if isinstance(each, int) else type(each).__name__ for each in arguments)
            raise ArgumentError(
                f"{name}({given}) does not say which size is which, and nn.Linear has them the other way round; "
                f"write {name}(num_classes=…, feature_dim=…)."
            )
        return super().__new__(cls)

    @_by_name
    def __init__(self, *, num_classes: int, feature_dim: int) -> None:
        super().__init__()
        if num_classes < 1 or feature_dim < 1:
            raise ArgumentError(f"num_classes and feature_dim must be at least 1; got {num_classes} and {feature_dim}.")
        self.num_classes = num_classes
        self.feature_dim = feature_dim

    def smooth_labels(self, share: float) -> None:
        """Give this share of a softmax loss to the mean over all classes."""
        if not 0 <= share < 1:
            raise ArgumentError(f"label_smoothing is the share of the loss for all classes, in [0, 1); got {share}.")
        if share:  # otherwise the class's value holds, and fingerprints of models are what they were without it
            self.label_smoothing = share

    @property
    def class_centers(self) -> Float[Tensor, "l d"] | None:
        """Where the center of each class is now; None for a loss without centers."""
        return None

    @property
    def distance_loss(self) -> DistanceLoss | None:
        """The loss as a function of the distance to the label's center; None if it is more than that."""
        return None

    @property
    def quadratic_logits(self) -> QuadraticLogits | None:
        """The parameters of Eq. 4, if the loss is the softmax cross-entropy of such logits; None otherwise."""
        return None

    @abstractmethod
    def per_sample(self, features: Float[Tensor, "n d"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """The loss of each sample: a pure function that changes nothing in the head."""

    @abstractmethod
    def logits(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n l"]:
        """One value per class; the largest is the prediction."""

    def probabilities(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n l"]:
        """Softmax over the logits, which gives MMC a normalised prediction in the test phase (paper Sec. 3.3)."""
        return self.logits(features).softmax(dim=1)

    def predicted_class_loss(self, features: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """The loss the predicted class would have: the paper's measure of uncertainty (Sec. 3.3)."""
        return self.per_sample(features, self.logits(features).argmax(dim=1))

    def extra_repr(self) -> str:
        """Sizes and settings, for print."""
        own = [f"{name}={_printed(getattr(self, name))}" for name in self.printed_settings]
        return ", ".join([f"classes={self.num_classes}", f"dim={self.feature_dim}", *own])

    def forward(
        self,
        features: Float[Tensor, "n d"],
        labels: Int[Tensor, " n"],
        others: Int[Tensor, " n"] | None = None,
        shares: Float[Tensor, " n"] | None = None,
    ) -> Float[Tensor, ""]:
        """The mean loss of the batch; for images mixed from two, share·L(z, label) + (1 - share)·L(z, other)."""
        self._check(features, labels)
        losses = self.per_sample(features, labels)
        if others is not None or shares is not None:
            if others is None or shares is None or shares.shape != labels.shape:
                given = "no shares" if shares is None else f"shares of shape {tuple(shares.shape)}"
                raise ArgumentError(
                    f"Mixed images need both others and shares, one value per sample; got {given} and "
                    f"{'no others' if others is None else 'others'} for {len(labels)} samples."
                )
            self._check(features, others)
            losses = shares * losses + (1 - shares) * self.per_sample(features, others)
        return losses.mean()

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


def _printed(value: object) -> str:
    if isinstance(value, Tensor):
        return "unknown" if value.is_meta else f"{float(value):g}"
    return f"{value:g}" if isinstance(value, float) else str(value)
