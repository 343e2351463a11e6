"""The elastic Max-Mahalanobis center loss (paper Eq. 21): centers that may move a little from the preset ones."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from maxmahal.errors import ArgumentError
from maxmahal.losses.center_head import CenterHead
from maxmahal.losses.mmc import mmc_loss
from maxmahal.models.head import DistanceLoss


def emc_loss(
    features: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    preset: Float[Tensor, "l d"],
    offsets: Float[Tensor, "l d"],
    alpha: float,
) -> Float[Tensor, " n"]:
    """``½‖z - μ_y‖² + ‖μ_y - μ*_y‖²/(2α)`` with ``μ = μ* + √α·offset`` (paper Eq. 21).

    The second term is ½‖offset_y‖², whose curvature does not depend on α: SGD on μ itself diverges for small α.
    """
    moved = preset + math.sqrt(alpha) * offsets
    return mmc_loss(features, labels, moved) + 0.5 * offsets[labels].square().sum(dim=1)


class EMC(CenterHead):
    """Eq. 21 with trainable centers; ``alpha`` is the prior variance, and 0 in the limit gives MMC."""

    divergence = "features"
    printed_settings = ("scale", "alpha")

    def __init__(self, centers: Float[Tensor, "l d"], *, alpha: float = 0.1, scale: float = 1.0) -> None:
        super().__init__(centers, scale=scale)
        if not (alpha > 0 and math.isfinite(alpha)):
            raise ArgumentError(f"alpha must be positive: it is the variance of a center; got {alpha}. For 0 use MMC.")
        self.alpha = alpha
        self.offsets = nn.Parameter(torch.zeros_like(self.centers))

    @property
    def class_centers(self) -> Float[Tensor, "l d"]:
        """``μ = μ* + √α·offset``, where training has moved the centers."""
        return self.centers + math.sqrt(self.alpha) * self.offsets

    @property
    def distance_loss(self) -> DistanceLoss:
        """Eq. 21: the prior of a class's center is a constant."""
        shifts = 0.5 * self.offsets.detach().double().square().sum(dim=1)
        return DistanceLoss(self.class_centers, float(self.scale), shifts)

    def per_sample(self, features: Float[Tensor, "n d"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Eq. 21 times the scale."""
        return self.scale * emc_loss(features, labels, self.centers, self.offsets, self.alpha)
