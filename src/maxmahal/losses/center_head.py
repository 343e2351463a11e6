"""What every head with preset centers shares: the centers, the scale and the logits."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from maxmahal.errors import ArgumentError
from maxmahal.losses.gsce import center_logits
from maxmahal.models.head import Head


class CenterHead(Head):
    """Preset centers μ* as a buffer, and logits -scale·½‖z - μ‖².

    ``scale`` 1 is the paper, 2 the released code, which drops the ½; it multiplies the loss and the logits alike.
    """

    printed_settings: tuple[str, ...] = ("scale",)
    has_preset_centers = True
    centers: Tensor
    scale: Tensor

    def __init__(self, centers: Float[Tensor, "l d"], *, scale: float = 1.0) -> None:
        if not isinstance(centers, Tensor):
            raise ArgumentError(
                f"centers must be a (num_classes, dim) tensor; got a {type(centers).__name__}. "
                "Convert them with torch.tensor(centers), or make them with max_mahalanobis_centers(num_classes, dim)."
            )
        finite = centers.is_meta or bool(centers.isfinite().all())  # a model built without memory has no values
        if centers.ndim != 2 or not centers.is_floating_point() or not finite:
            raise ArgumentError(
                f"centers must be a finite, floating (num_classes, dim) tensor; got {centers.dtype} of shape "
                f"{tuple(centers.shape)}. "
                "Make them with max_mahalanobis_centers(num_classes, dim)."
            )
        if not (scale > 0 and math.isfinite(scale)):
            raise ArgumentError(f"scale must be positive (1 is the paper, 2 the released code); got {scale}.")
        super().__init__(num_classes=centers.shape[0], feature_dim=centers.shape[1])
        self.register_buffer("centers", centers.detach().clone())
        self.register_buffer("scale", torch.tensor(scale, dtype=centers.dtype))

    @property
    def class_centers(self) -> Float[Tensor, "l d"]:
        """μ, where the centers are now; a subclass may move them."""
        return self.centers

    def logits(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n l"]:
        """-scale·½‖z - μ_k‖²."""
        return self.scale * center_logits(features, self.class_centers)
