"""Logits that are quadratic in the features, the family every softmax loss of the paper belongs to (Eq. 3 and 4)."""

from functools import reduce

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from maxmahal.errors import ArgumentError
from maxmahal.models.head import Head, QuadraticLogits


def center_logits(features: Float[Tensor, "n d"], centers: Float[Tensor, "l d"]) -> Float[Tensor, "n l"]:
    """-½‖z - μ_k‖² for every class, expanded into one matrix product, so that memory does not grow with n·l·d.

    This rounds by about 1e-7 of ‖z‖² + ‖μ‖²: a logit at its own center may come out as -1e-5 instead of 0.
    """
    with torch.autocast(features.device.type, enabled=False):
        features, centers = same_type(features, centers)
        half_squares = 0.5 * centers.square().sum(dim=1)
        return torch.addmm(-half_squares, features, centers.T) - 0.5 * features.square().sum(dim=1, keepdim=True)


def same_type(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors in the most precise of their types: under autocast, features may come in half precision."""
    dtype = reduce(torch.promote_types, [tensor.dtype for tensor in tensors])
    return tuple(tensor.to(dtype) for tensor in tensors)


def quadratic_logits(
    features: Float[Tensor, "n d"],
    centers: Float[Tensor, "l d"],
    precisions: Float[Tensor, "l ..."],
    biases: Float[Tensor, " l"],
) -> Float[Tensor, "n l"]:
    """-(z - μ_k)ᵀ Σ_k (z - μ_k) + B_k (paper Eq. 4; its Σ is a precision).

    ``precisions`` is one number per class (σ_k·I), one vector per class (a diagonal) or one matrix per class.
    """
    difference = features[:, None, :] - centers[None, :, :]
    if precisions.ndim == 1:
        distances = difference.square().sum(dim=2) * precisions
    elif precisions.ndim == 2:
        distances = (difference.square() * precisions).sum(dim=2)
    elif precisions.ndim == 3:
        distances = torch.einsum("nld,lde,nle->nl", difference, precisions, difference)
    else:
        raise ArgumentError(
            f"precisions must have shape (l,), (l, d) or (l, d, d); got {tuple(precisions.shape)}. "
            "Use one number, one diagonal or one matrix per class."
        )
    return biases - distances


def gsce_loss(
    features: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    centers: Float[Tensor, "l d"],
    precisions: Float[Tensor, "l ..."],
    biases: Float[Tensor, " l"],
) -> Float[Tensor, " n"]:
    """-log softmax(h)_y with quadratic logits h (paper Eq. 3 and 4)."""
    return F.cross_entropy(quadratic_logits(features, centers, precisions, biases), labels, reduction="none")


class GSCE(Head):
    """Generalised softmax cross-entropy with trainable means, scalar precisions and biases (paper Eq. 3 and 4)."""

    def __init__(self, *, num_classes: int, feature_dim: int) -> None:
        super().__init__(num_classes=num_classes, feature_dim=feature_dim)
        self.centers = nn.Parameter(torch.randn(num_classes, feature_dim) / feature_dim**0.5)
        self.log_precisions = nn.Parameter(torch.zeros(num_classes))
        self.biases = nn.Parameter(torch.zeros(num_classes))

    @property
    def class_centers(self) -> Float[Tensor, "l d"]:
        """The means μ_k."""
        return self.centers

    @property
    def quadratic_logits(self) -> QuadraticLogits:
        """The trainable parameters themselves."""
        return QuadraticLogits(self.centers, self.log_precisions.exp(), self.biases)

    def logits(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n l"]:
        """Quadratic logits (Eq. 4)."""
        return quadratic_logits(features, *self.quadratic_logits)

    def per_sample(self, features: Float[Tensor, "n d"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Eq. 3."""
        return gsce_loss(features, labels, *self.quadratic_logits)
