"""The Max-Mahalanobis center loss (paper Eq. 8) and its absolute and Huber forms (appendix B.2)."""

from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.errors import ArgumentError, check_choice
from maxmahal.losses.center_head import CenterHead
from maxmahal.models.head import DistanceLoss

Form = Literal["squared", "absolute", "huber"]


def mmc_loss(
    features: Float[Tensor, "n d"], labels: Int[Tensor, " n"], centers: Float[Tensor, "l d"]
) -> Float[Tensor, " n"]:
    """½‖z - μ_y‖² for each sample (paper Eq. 8)."""
    return 0.5 * (features - centers[labels]).square().sum(dim=1)


def absolute_mmc_loss(
    features: Float[Tensor, "n d"], labels: Int[Tensor, " n"], centers: Float[Tensor, "l d"]
) -> Float[Tensor, " n"]:
    """‖z - μ_y‖ for each sample (appendix B.2)."""
    return torch.linalg.vector_norm(features - centers[labels], dim=1)


def huber_mmc_loss(
    features: Float[Tensor, "n d"], labels: Int[Tensor, " n"], centers: Float[Tensor, "l d"], threshold: float = 1.0
) -> Float[Tensor, " n"]:
    """½r² up to r = ‖z - μ_y‖ = threshold, and its tangent beyond (appendix B.2)."""
    distance = absolute_mmc_loss(features, labels, centers)
    tangent = threshold * (distance - 0.5 * threshold)
    return torch.where(distance <= threshold, mmc_loss(features, labels, centers), tangent)


def pairing_loss(features: Float[Tensor, "n d"], adversarial_features: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """‖z(x) - z(x*)‖² for each sample, adversarial logit pairing on features (appendix B.2)."""
    return (features - adversarial_features).square().sum(dim=1)


class MMC(CenterHead):
    """Max-Mahalanobis center loss: ``MMC(max_mahalanobis_centers(num_classes, dim))``."""

    divergence = "features"
    printed_settings = ("scale", "form")
    zero_is_boundary = True
    zero_at_centers = True

    def __init__(
        self, centers: Float[Tensor, "l d"], *, scale: float = 1.0, form: Form = "squared", huber_threshold: float = 1.0
    ) -> None:
        super().__init__(centers, scale=scale)
        check_choice("form", form, get_args(Form))
        if huber_threshold <= 0:
            raise ArgumentError(f"huber_threshold must be positive, a distance; got {huber_threshold}.")
        self.form = form
        self.huber_threshold = huber_threshold

    @property
    def distance_loss(self) -> DistanceLoss | None:
        """Eq. 8; None for the absolute and Huber forms."""
        if self.form != "squared":
            return None
        return DistanceLoss(self.centers, float(self.scale), self.centers.new_zeros(self.num_classes))

    def per_sample(self, features: Float[Tensor, "n d"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Eq. 8 times the scale."""
        if self.form == "squared":
            loss = mmc_loss(features, labels, self.centers)
        elif self.form == "absolute":
            loss = absolute_mmc_loss(features, labels, self.centers)
        else:
            loss = huber_mmc_loss(features, labels, self.centers, self.huber_threshold)
        return self.scale * loss
