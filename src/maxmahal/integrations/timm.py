"""Models of timm by name, such as ``timm:resnet18`` or ``timm:resnet18.a1_in1k``."""

from collections.abc import Callable

import torch
from torch import nn

from maxmahal.errors import ArgumentError, did_you_mean
from maxmahal.imports import optional
from maxmahal.models import Normalize


def find_model(name: str) -> Callable[..., nn.Module]:
    """What builds the model: pretrained with its normalisation, or for a shape and a width a network to train."""
    timm = optional("timm", "pip install 'maxmahal[timm]'")
    architecture, _, weights = name.partition(".")
    if not timm.is_model(architecture):
        raise ArgumentError(f"timm has no model '{architecture}'; {did_you_mean(architecture, timm.list_models())}")
    known = [each.partition(".")[2] for each in timm.list_pretrained(f"{architecture}.*")]
    if weights and weights not in known:
        raise ArgumentError(f"timm has no weights '{weights}' of {architecture}; {did_you_mean(weights, known)}")

    def build(image_shape: tuple[int, int, int] | None = None, feature_dim: int = 0) -> nn.Module:
        if image_shape is None:
            with torch.random.fork_rng(devices=[]):  # weights are drawn before they are loaded
                loaded = timm.create_model(name, pretrained=True)
            mean, std = (torch.tensor(loaded.pretrained_cfg[key])[:, None, None] for key in ("mean", "std"))
            return nn.Sequential(Normalize(mean, std), loaded).eval()
        made = timm.create_model(architecture, num_classes=feature_dim, in_chans=image_shape[0])
        if hasattr(made, "set_input_size"):  # transformers are built for one size
            made.set_input_size(img_size=image_shape[1:])
        return made

    return build
