"""Angular-margin softmax losses from face recognition, as baselines (appendix B.5): CosFace and ArcFace."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from maxmahal.errors import ArgumentError
from maxmahal.models.head import Head


def class_cosines(features: Float[Tensor, "n d"], weight: Float[Tensor, "l d"]) -> Float[Tensor, "n l"]:
    """The cosine of the angle between each feature and each class's weight."""
    return F.linear(F.normalize(features), F.normalize(weight))


def turned_cosines(cosines: Float[Tensor, " n"], margin: float) -> Float[Tensor, " n"]:
    """cos(θ + m); where θ + m would pass π and the cosine rise again, a straight line goes on falling in its place."""
    cosines = cosines.clamp(-1 + 1e-6, 1 - 1e-6)  # the angle's gradient is infinite at 0 and π
    turned = cosines * math.cos(margin) - (1 - cosines.square()).sqrt() * math.sin(margin)
    beyond = cosines - math.sin(margin) * margin
    return torch.where(cosines > math.cos(math.pi - margin), turned, beyond)


def cosface_loss(
    features: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    weight: Float[Tensor, "l d"],
    margin: float = 0.35,
    temperature: float = 30.0,
) -> Float[Tensor, " n"]:
    """Cross-entropy of temperature·cos θ_k for each sample, the true class's cosine made harder to cos θ_y - m."""
    return _cross_entropy(features, labels, weight, lambda true: true - margin, temperature)


def arcface_loss(
    features: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    weight: Float[Tensor, "l d"],
    margin: float = 0.5,
    temperature: float = 30.0,
) -> Float[Tensor, " n"]:
    """Cross-entropy of temperature·cos θ_k for each sample, the true class's cosine made harder to cos(θ_y + m)."""
    return _cross_entropy(features, labels, weight, lambda true: turned_cosines(true, margin), temperature)


def _cross_entropy(
    features: Tensor, labels: Tensor, weight: Tensor, harder: Callable[[Tensor], Tensor], temperature: float
) -> Float[Tensor, " n"]:
    cosines = class_cosines(features, weight)
    true = cosines.gather(1, labels[:, None]).squeeze(1)
    logits = temperature * cosines.scatter(1, labels[:, None], harder(true)[:, None])
    return F.cross_entropy(logits, labels, reduction="none")


class AngularHead(Head):
    """Softmax over ``temperature``·cos∠(z, W_k), with features and weights normalised to length 1."""

    printed_settings = ("margin", "temperature")

    def __init__(self, *, num_classes: int, feature_dim: int, margin: float, temperature: float) -> None:
        super().__init__(num_classes=num_classes, feature_dim=feature_dim)
        if margin < 0 or temperature <= 0:
            raise ArgumentError(
                f"margin must not be negative and temperature must be positive; got {margin} and {temperature}."
            )
        self.margin = margin
        self.temperature = temperature
        self.weight = nn.Parameter(torch.empty(num_classes, feature_dim))
        nn.init.xavier_uniform_(self.weight)

    def logits(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n l"]:
        """temperature·cosine, without the margin that is added in training."""
        return self.temperature * class_cosines(features, self.weight)


class CosFace(AngularHead):
    """An additive margin on the cosine: cos θ_y - m."""

    def __init__(self, *, num_classes: int, feature_dim: int, margin: float = 0.35, temperature: float = 30.0) -> None:
        super().__init__(num_classes=num_classes, feature_dim=feature_dim, margin=margin, temperature=temperature)

    def per_sample(self, features: Float[Tensor, "n d"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Cross-entropy with cos θ_y - m."""
        return cosface_loss(features, labels, self.weight, self.margin, self.temperature)


class ArcFace(AngularHead):
    """An additive margin on the angle: cos(θ_y + m)."""

    def __init__(self, *, num_classes: int, feature_dim: int, margin: float = 0.5, temperature: float = 30.0) -> None:
        super().__init__(num_classes=num_classes, feature_dim=feature_dim, margin=margin, temperature=temperature)

    def per_sample(self, features: Float[Tensor, "n d"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Cross-entropy with cos(θ_y + m)."""
        return arcface_loss(features, labels, self.weight, self.margin, self.temperature)
