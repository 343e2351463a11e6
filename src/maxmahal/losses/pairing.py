"""Adversarial logit pairing on features, and how MMC bounds it (appendix B.2)."""

from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.losses.mmc import mmc_loss


def pairing_loss(features: Float[Tensor, "n d"], adversarial_features: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """‖z(x) - z(x*)‖² for each sample, the ALP regulariser (appendix B.2)."""
    return (features - adversarial_features).square().sum(dim=1)


def pairing_bound(
    features: Float[Tensor, "n d"],
    adversarial_features: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    centers: Float[Tensor, "l d"],
) -> Float[Tensor, " n"]:
    """‖z(x) - μ_y‖² + ‖z(x*) - μ_y‖² >= ½‖z(x) - z(x*)‖²: MMC on both images also pairs them (appendix B.2)."""
    return 2 * (mmc_loss(features, labels, centers) + mmc_loss(adversarial_features, labels, centers))
