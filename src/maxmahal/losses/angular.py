"""Angular-margin softmax losses from face recognition, as baselines (appendix B.5): CosFace and ArcFace."""

import math
from abc import abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from maxmahal.errors import ArgumentError
from maxmahal.models.head import Head


class AngularHead(Head):
    """Softmax over ``temperature``·cos∠(z, W_k), with features and weights normalised to length 1."""

    def __init__(self, num_classes: int, feature_dim: int, *, margin: float, temperature: float) -> None:
        super().__init__(num_classes, feature_dim)
        if margin < 0 or temperature <= 0:
            raise ArgumentError(
                f"margin must not be negative and temperature must be positive; got {margin} and {temperature}."
            )
        self.margin = margin
        self.temperature = temperature
        self.weight = nn.Parameter(torch.empty(num_classes, feature_dim))
        nn.init.xavier_uniform_(self.weight)

    def cosines(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n l"]:
        """The cosine of the angle between each feature and each class."""
        return F.linear(F.normalize(features), F.normalize(self.weight))

    def logits(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n l"]:
        """temperature·cosine, without the margin that is added in training."""
        return self.temperature * self.cosines(features)

    @abstractmethod
    def with_margin(self, cosines: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """The true class's cosine made harder by the margin."""

    def per_sample(self, features: Float[Tensor, "n d"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Cross-entropy after the margin."""
        cosines = self.cosines(features)
        harder = self.with_margin(cosines.gather(1, labels[:, None]).squeeze(1))
        logits = self.temperature * cosines.scatter(1, labels[:, None], harder[:, None])
        return F.cross_entropy(logits, labels, reduction="none")


class CosFace(AngularHead):
    """An additive margin on the cosine: cos θ_y - m."""

    def __init__(self, num_classes: int, feature_dim: int, *, margin: float = 0.35, temperature: float = 30.0) -> None:
        super().__init__(num_classes, feature_dim, margin=margin, temperature=temperature)

    def with_margin(self, cosines: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """cos θ - m."""
        return cosines - self.margin


class ArcFace(AngularHead):
    """An additive margin on the angle: cos(θ_y + m)."""

    def __init__(self, num_classes: int, feature_dim: int, *, margin: float = 0.5, temperature: float = 30.0) -> None:
        super().__init__(num_classes, feature_dim, margin=margin, temperature=temperature)

    def with_margin(self, cosines: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """cos(θ + m) while θ + m stays below π; past that its tangent-like continuation, which keeps falling."""
        cosines = cosines.clamp(-1 + 1e-6, 1 - 1e-6)  # the angle's gradient is infinite at 0 and π
        sines = (1 - cosines.square()).sqrt()
        turned = cosines * math.cos(self.margin) - sines * math.sin(self.margin)
        beyond = cosines - math.sin(self.margin) * self.margin
        return torch.where(cosines > math.cos(math.pi - self.margin), turned, beyond)
