"""Max-Mahalanobis linear discriminant analysis: softmax over distances to preset centers (paper Eq. 10)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from maxmahal.losses.center_head import CenterHead
from maxmahal.losses.gsce import same_type
from maxmahal.models.head import QuadraticLogits


def mmlda_loss(
    features: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    centers: Float[Tensor, "l d"],
    scale: float | Tensor = 1.0,
    label_smoothing: float = 0.0,
) -> Float[Tensor, " n"]:
    """-log softmax(-scale·½‖z - μ‖²)_y for each sample (paper Eq. 10 at scale 1).

    ½‖z‖² is common to all classes, so it is left out: z·μ - ½‖μ‖² trains where the squared distance does not.
    """
    with torch.autocast(features.device.type, enabled=False):
        features, centers = same_type(features, centers)
        logits = features @ centers.T - 0.5 * centers.square().sum(dim=1)
    return F.cross_entropy(scale * logits, labels, reduction="none", label_smoothing=label_smoothing)


class MMLDA(CenterHead):
    """Eq. 10 on preset centers; the same logits as MMC, trained through the softmax."""

    zero_is_boundary = True

    def __init__(self, centers: Float[Tensor, "l d"], *, scale: float = 1.0, label_smoothing: float = 0.0) -> None:
        super().__init__(centers, scale=scale)
        self.smooth_labels(label_smoothing)

    @property
    def quadratic_logits(self) -> QuadraticLogits | None:
        """Precisions of ½·scale, biases of 0; None for smoothed labels."""
        if self.label_smoothing:
            return None
        zeros = self.centers.new_zeros(self.num_classes)
        return QuadraticLogits(self.centers, zeros + 0.5 * self.scale, zeros)

    def per_sample(self, features: Float[Tensor, "n d"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Eq. 10."""
        return mmlda_loss(features, labels, self.centers, self.scale, self.label_smoothing)
