"""The center loss of Wen et al., jointly with softmax cross-entropy and alone (paper Remark 2)."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from maxmahal.errors import ArgumentError
from maxmahal.losses.gsce import center_logits
from maxmahal.losses.mmc import mmc_loss
from maxmahal.models.head import DistanceLoss, Head


def center_loss(
    features: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    centers: Float[Tensor, "l d"],
    logits: Float[Tensor, "n l"] | None,
    weight: float = 0.003,
) -> Float[Tensor, " n"]:
    """L_SCE + weight·½‖z - μ_y‖² for each sample (Remark 2); without logits the second term alone."""
    pull = weight * mmc_loss(features, labels, centers)
    return pull if logits is None else F.cross_entropy(logits, labels, reduction="none") + pull


def updated_centers(
    features: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    centers: Float[Tensor, "l d"],
    rate: float,
    add_up: Callable[[Sequence[Tensor]], None] = lambda _: None,
) -> Float[Tensor, "l d"]:
    """The delta rule: μ_k moves by ``rate`` of Σ(z - μ_k) / (1 + n_k) over the batch's n_k features of class k.

    ``add_up`` replaces tensors by their sums over processes that have a part of the batch each.
    """
    members = F.one_hot(labels, len(centers)).to(centers.dtype)
    with torch.autocast(features.device.type, enabled=False):
        counts, sums = members.sum(dim=0), members.T @ features.to(centers.dtype)
    add_up([counts, sums])
    pull = sums - counts[:, None] * centers
    return centers + rate * pull / (1 + counts[:, None])


class CenterLoss(Head):
    """SCE + weight·½‖z - μ_y‖², where μ follows the features by the delta rule at each ``forward`` in training mode.

    With ``joint=False`` the softmax term is left out and the nearest center predicts: features and centers then
    collapse to one point, which is the paper's argument for centers that do not move.
    """

    printed_settings = ("weight", "update_rate", "joint")
    centers: Tensor

    def __init__(
        self, *, num_classes: int, feature_dim: int, weight: float = 0.003, update_rate: float = 0.5, joint: bool = True
    ) -> None:
        super().__init__(num_classes=num_classes, feature_dim=feature_dim)
        if weight < 0:
            raise ArgumentError(f"weight must not be negative; got {weight}.")
        if not 0 <= update_rate <= 1:
            raise ArgumentError(
                f"update_rate must lie in [0, 1]: it is the share of the way to move; got {update_rate}."
            )
        self.weight = weight
        self.update_rate = update_rate
        self.joint = joint
        self.linear = nn.Linear(feature_dim, num_classes) if joint else None
        self.register_buffer("centers", torch.randn(num_classes, feature_dim))

    @property
    def class_centers(self) -> Float[Tensor, "l d"]:
        """μ, which follows the features."""
        return self.centers

    @property
    def distance_loss(self) -> DistanceLoss | None:
        """The center term alone; None beside the softmax term."""
        if self.joint or not self.weight:
            return None
        return DistanceLoss(self.centers, self.weight, self.centers.new_zeros(self.num_classes))

    def logits(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n l"]:
        """Wz + b; alone, -½‖z - μ_k‖²."""
        if self.linear is None:
            # A copy, because forward moves the centers in place before the caller's backward pass reads them.
            return center_logits(features, self.centers.clone())
        return self.linear(features)

    def per_sample(self, features: Float[Tensor, "n d"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """L_SCE + weight·L_Center; alone, weight·L_Center (Remark 2)."""
        logits = None if self.linear is None else self.linear(features)
        return center_loss(features, labels, self.centers, logits, self.weight)

    def forward(
        self,
        features: Float[Tensor, "n d"],
        labels: Int[Tensor, " n"],
        others: Int[Tensor, " n"] | None = None,
        shares: Float[Tensor, " n"] | None = None,
    ) -> Float[Tensor, ""]:
        """The mean loss of the batch; in training mode the centers of ``labels`` then follow the features."""
        loss: Tensor = super().forward(features, labels, others, shares)
        if self.training:
            with torch.no_grad():
                self.centers.copy_(updated_centers(features, labels, self.centers, self.update_rate, self.add_up))
        return loss
