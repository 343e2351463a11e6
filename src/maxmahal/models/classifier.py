"""A network and a head put together: the model that is trained, attacked and saved."""

from jaxtyping import Float, Int
from torch import Tensor, nn

from maxmahal.errors import ArgumentError
from maxmahal.models.head import Head


class Classifier(nn.Module):
    """``Classifier(backbone, head)``: images in [0, 1], NCHW, in; logits out; ``features`` is the second method.

    ``backbone`` is any module that maps images to feature vectors (ours, timm's, torchvision's, your own).
    ``normalize`` runs before it, so that callers and attacks never leave [0, 1].
    """

    def __init__(self, backbone: nn.Module, head: Head, normalize: nn.Module | None = None) -> None:
        super().__init__()
        if not isinstance(head, Head):
            raise ArgumentError(
                f"head must be a maxmahal Head such as MMC or SCE; got {type(head).__name__}. "
                "The call is Classifier(backbone, head)."
            )
        self.normalize = nn.Identity() if normalize is None else normalize
        self.backbone = backbone
        self.head = head

    def features(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """The feature vectors z that the head and the paper's theorems speak of."""
        features: Tensor = self.backbone(self.normalize(images))
        if not isinstance(features, Tensor):
            raise ArgumentError(f"The backbone must return one tensor of features; got a {type(features).__name__}.")
        if features.ndim != 2 or features.shape[1] != self.head.feature_dim:
            width = f" (--set model.feature_dim={features.shape[1]})" if features.ndim == 2 else ""
            raise ArgumentError(
                f"The backbone must return features of shape (n, {self.head.feature_dim}), the width of the head; "
                f"got {tuple(features.shape)}. Flatten or pool its output, or build the head for that width{width}."
            )
        return features

    def forward(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n l"]:
        """Logits: one value a class, the largest is the prediction."""
        return self.head.logits(self.features(images))

    def loss(self, images: Float[Tensor, "n c h w"], labels: Int[Tensor, " n"]) -> Float[Tensor, ""]:
        """The head's mean loss on these images."""
        loss: Tensor = self.head(self.features(images), labels)
        return loss
