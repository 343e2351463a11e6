"""The baseline: softmax cross-entropy on a linear layer (paper Eq. 1)."""

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from maxmahal.models.head import Head, QuadraticLogits


def sce_loss(
    features: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    weight: Float[Tensor, "l d"],
    bias: Float[Tensor, " l"],
    label_smoothing: float = 0.0,
) -> Float[Tensor, " n"]:
    """-log softmax(Wz + b)_y for each sample (paper Eq. 1); a share of it goes to the mean over all classes."""
    logits = F.linear(features, weight, bias)
    return F.cross_entropy(logits, labels, reduction="none", label_smoothing=label_smoothing)


class SCE(Head):
    """Softmax cross-entropy with a trainable linear layer."""

    zero_is_boundary = True

    def __init__(self, *, num_classes: int, feature_dim: int, label_smoothing: float = 0.0) -> None:
        super().__init__(num_classes=num_classes, feature_dim=feature_dim)
        self.smooth_labels(label_smoothing)
        self.linear = nn.Linear(feature_dim, num_classes)

    @property
    def quadratic_logits(self) -> QuadraticLogits | None:
        """Wz + b with means ½W and precisions 1, as the paper reads it (Sec. 3.2); None for smoothed labels."""
        if self.label_smoothing:
            return None
        weight, bias = self.linear.weight, self.linear.bias
        return QuadraticLogits(0.5 * weight, weight.new_ones(len(weight)), bias + 0.25 * weight.square().sum(dim=1))

    def logits(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n l"]:
        """Wz + b."""
        return self.linear(features)

    def per_sample(self, features: Float[Tensor, "n d"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Eq. 1."""
        return sce_loss(features, labels, self.linear.weight, self.linear.bias, self.label_smoothing)
