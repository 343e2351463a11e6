"""The baseline: softmax cross-entropy on a linear layer (paper Eq. 1)."""

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from maxmahal.models.head import Head, QuadraticLogits


def sce_loss(
    features: Float[Tensor, "n d"], labels: Int[Tensor, " n"], weight: Float[Tensor, "l d"], bias: Float[Tensor, " l"]
) -> Float[Tensor, " n"]:
    """-log softmax(Wz + b)_y for each sample (paper Eq. 1)."""
    return F.cross_entropy(F.linear(features, weight, bias), labels, reduction="none")


class SCE(Head):
    """Softmax cross-entropy with a trainable linear layer."""

    zero_is_boundary = True

    def __init__(self, *, num_classes: int, feature_dim: int) -> None:
        super().__init__(num_classes=num_classes, feature_dim=feature_dim)
        self.linear = nn.Linear(feature_dim, num_classes)

    @property
    def quadratic_logits(self) -> QuadraticLogits:
        """Wz + b with means ½W and precisions 1, as the paper reads it (Sec. 3.2)."""
        weight, bias = self.linear.weight, self.linear.bias
        return QuadraticLogits(0.5 * weight, weight.new_ones(len(weight)), bias + 0.25 * weight.square().sum(dim=1))

    def logits(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n l"]:
        """Wz + b."""
        logits: Tensor = self.linear(features)
        return logits

    def per_sample(self, features: Float[Tensor, "n d"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Eq. 1."""
        return sce_loss(features, labels, self.linear.weight, self.linear.bias)
