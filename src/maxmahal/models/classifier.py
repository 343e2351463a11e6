"""A network and a head put together, with the normalisation inside: the model that is trained, attacked and saved."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from maxmahal.errors import ArgumentError, SettingsError, did_you_mean
from maxmahal.imports import integration
from maxmahal.models.head import Head

NORMALIZATIONS = ("none", "pixel-mean", "channel")


class Normalize(nn.Module):
    """``(images - mean) / std`` with constants that travel with the checkpoint."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Float[Tensor, "c h w"], std: Float[Tensor, "c h w"]) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
        """Images in [0, 1] as the backbone wants them."""
        return (images - self.mean) / self.std


def fit_normalization(name: str, images: UInt8[Tensor, "n c h w"]) -> Normalize:
    """Measure the constants on training images.

    ``pixel-mean`` subtracts the mean image and does not divide, as the paper's released code does; ``channel`` uses one
    mean and one standard deviation per channel; ``none`` passes images through.
    """
    # Summing integers keeps the statistics exact, so they do not depend on the device or on the number of threads.
    count = len(images)
    if name == "none":
        zero = torch.zeros(1, 1, 1)
        return Normalize(zero, torch.ones_like(zero))
    if name == "pixel-mean":
        mean = images.sum(dim=0, dtype=torch.int64).double() / (255 * count)
        return Normalize(mean.float(), torch.ones_like(mean).float())
    if name == "channel":
        pixels = count * images.shape[2] * images.shape[3]
        mean = images.sum(dim=(0, 2, 3), dtype=torch.int64).double() / (255 * pixels)
        square = images.to(torch.int32).square().sum(dim=(0, 2, 3), dtype=torch.int64).double() / (255**2 * pixels)
        std = (square - mean.square()).clamp_min(1e-12).sqrt()
        return Normalize(mean.float()[:, None, None], std.float()[:, None, None])
    raise SettingsError(f"model.normalize = '{name}' is unknown; {did_you_mean(name, NORMALIZATIONS)}")


def blank_normalization(name: str, image_shape: tuple[int, int, int]) -> Normalize:
    """A layer of the right shape whose constants a checkpoint will fill in."""
    channels, height, width = image_shape
    shape = {"none": (1, 1, 1), "pixel-mean": (channels, height, width), "channel": (channels, 1, 1)}[name]
    return Normalize(torch.zeros(shape), torch.ones(shape))


class Classifier(nn.Module):
    """``Classifier(backbone, head)``: images in [0, 1], NCHW, in; logits out.

    ``backbone`` is any module that maps images to feature vectors; ``normalize`` runs before it, so that callers and
    attacks never leave [0, 1].
    """

    card: Any = None
    """Its ``ModelCard`` (settings, image shape, class names), if it was loaded; None if it was built by hand."""

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
        """Logits: one value per class, the largest is the prediction."""
        return self.head.logits(self.features(images))

    def loss(
        self,
        images: Float[Tensor, "n c h w"],
        labels: Int[Tensor, " n"],
        others: Int[Tensor, " n"] | None = None,
        shares: Float[Tensor, " n"] | None = None,
    ) -> Float[Tensor, ""]:
        """The head's mean loss on these images, which may be mixed from two."""
        mixed = () if others is None else (others, shares)
        return self.head(self.features(images), labels, *mixed)

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        revision: str | None = None,
        token: str | bool | None = None,
        backbone: nn.Module | None = None,
        trusted: Sequence[str] = (),
        device: torch.device | str = "cpu",
    ) -> "Classifier":
        """The model in a folder of ``save_pretrained``, or in the repository OWNER/NAME of Hugging Face Hub.

        No code is executed from the files. ``backbone`` and ``trusted`` are those of ``maxmahal.load``.
        """
        loading = {"backbone": backbone, "trusted": trusted, "device": device}
        return integration("hub").from_pretrained(name, revision, token, **loading)

    def save_pretrained(self, folder: str | Path, *, evaluations: Sequence[Any] = ()) -> None:
        """Write config.json, model.safetensors and a card (README.md) with the results of ``evaluations``."""
        integration("hub").save_pretrained(self, folder, evaluations)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        evaluations: Sequence[Any] = (),
        private: bool | None = None,
        token: str | bool | None = None,
    ) -> str:
        """Upload the same files to the repository OWNER/NAME of Hugging Face Hub; returns its address."""
        return integration("hub").push_to_hub(self, repo_id, evaluations, private, token)
