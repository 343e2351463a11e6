"""The large-margin Gaussian mixture loss of Wan et al., a baseline of the paper (Sec. 3.2)."""

import math
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from maxmahal.errors import ArgumentError, check_choice
from maxmahal.losses.gsce import same_type
from maxmahal.models.head import Head

Covariance = Literal["identity", "diagonal"]

# The likelihood term rewards variances and features that shrink together without end; at this variance the pull of a
# feature towards its center is ten times that of identity covariance, which SGD at usual learning rates still follows.
LEAST_VARIANCE = 0.1


def mahalanobis(
    features: Float[Tensor, "n d"], centers: Float[Tensor, "l d"], log_variances: Float[Tensor, "l d"]
) -> Float[Tensor, "n l"]:
    """d_k² = (z - μ_k)ᵀ Λ_k⁻¹ (z - μ_k) with diagonal Λ_k, expanded into matrix products."""
    with torch.autocast(features.device.type, enabled=False):
        features, centers, precisions = same_type(features, centers, (-log_variances).exp())
        linear = features @ (precisions * centers).T
        return features.square() @ precisions.T - 2 * linear + (precisions * centers.square()).sum(dim=1)


def lgm_logits(
    features: Float[Tensor, "n d"], centers: Float[Tensor, "l d"], log_variances: Float[Tensor, "l d"]
) -> Float[Tensor, "n l"]:
    """-½d_k² - ½log|Λ_k|, the log-likelihood of each class up to a constant."""
    return -0.5 * (mahalanobis(features, centers, log_variances) + log_variances.sum(dim=1))


def lgm_loss(
    features: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    centers: Float[Tensor, "l d"],
    log_variances: Float[Tensor, "l d"],
    margin: float = 0.1,
    likelihood_weight: float = 0.01,
) -> Float[Tensor, " n"]:
    """Cross-entropy with the true class's d² enlarged by the margin, plus λ(½d_y² + ½log|Λ_y|), for each sample."""
    half_distances = 0.5 * mahalanobis(features, centers, log_variances)
    half_log_determinants = 0.5 * log_variances.sum(dim=1)
    is_true = F.one_hot(labels, len(centers)).to(half_distances.dtype)
    logits = -half_distances * (1 + margin * is_true) - half_log_determinants
    likelihood = ((half_distances + half_log_determinants) * is_true).sum(dim=1)
    return F.cross_entropy(logits, labels, reduction="none") + likelihood_weight * likelihood


class LGM(Head):
    """Logits -½d_k² - ½log|Λ_k|; training enlarges the true class's d² by the margin and adds a likelihood term.

    ``margin`` is the original multiplicative α (this paper writes an additive one), ``likelihood_weight`` its λ. A
    floor keeps a trainable Λ from shrinking to nothing; ``covariance="identity"`` fixes Λ, as the authors' CIFAR code
    does.
    """

    printed_settings = ("margin", "likelihood_weight")
    log_variances: Tensor

    def __init__(
        self,
        *,
        num_classes: int,
        feature_dim: int,
        margin: float = 0.1,
        likelihood_weight: float = 0.01,
        covariance: Covariance = "identity",
    ) -> None:
        super().__init__(num_classes=num_classes, feature_dim=feature_dim)
        if margin < 0 or likelihood_weight < 0:
            raise ArgumentError(
                f"margin and likelihood_weight must not be negative; got {margin} and {likelihood_weight}."
            )
        check_choice("covariance", covariance, get_args(Covariance))
        self.margin = margin
        self.likelihood_weight = likelihood_weight
        self.centers = nn.Parameter(nn.init.xavier_uniform_(torch.empty(num_classes, feature_dim)))
        log_variances = torch.zeros(num_classes, feature_dim)
        if covariance == "diagonal":
            self.log_variances = nn.Parameter(log_variances)
        else:
            self.register_buffer("log_variances", log_variances)

    @property
    def floored_log_variances(self) -> Float[Tensor, "l d"]:
        """log Λ, kept above its floor."""
        return self.log_variances.clamp_min(math.log(LEAST_VARIANCE))

    @property
    def class_centers(self) -> Float[Tensor, "l d"]:
        """The trainable means μ_k."""
        return self.centers

    def logits(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n l"]:
        """-½d_k² - ½log|Λ_k|."""
        return lgm_logits(features, self.centers, self.floored_log_variances)

    def per_sample(self, features: Float[Tensor, "n d"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Margin, log-determinants and likelihood."""
        variances = self.floored_log_variances
        return lgm_loss(features, labels, self.centers, variances, self.margin, self.likelihood_weight)
