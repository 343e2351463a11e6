"""Classifiers of torchvision by name, such as ``torchvision:resnet18`` or ``torchvision:resnet50.IMAGENET1K_V1``."""

from collections.abc import Callable

import torch
from torch import nn

from maxmahal.errors import ArgumentError, SettingsError, did_you_mean
from maxmahal.imports import optional
from maxmahal.models import Normalize


def find_model(name: str) -> Callable[..., nn.Module]:
    """What builds the model: pretrained with its normalisation, or for a shape and a width a network to train."""
    models = optional("torchvision.models", "pip install 'maxmahal[torchvision]'")
    architecture, _, weights = name.partition(".")
    known = models.list_models(module=models)
    if architecture not in known:
        raise ArgumentError(f"torchvision has no classifier '{architecture}'; {did_you_mean(architecture, known)}")
    available = models.get_model_weights(architecture)
    if weights and weights not in available.__members__:
        choice = did_you_mean(weights, available.__members__)
        raise ArgumentError(f"torchvision has no weights '{weights}' of {architecture}; {choice}")

    def build(image_shape: tuple[int, int, int] | None = None, feature_dim: int = 0) -> nn.Module:
        if image_shape is None:
            chosen = available[weights or "DEFAULT"]
            # torchvision unpickles what it downloads. This call refuses a file that holds more than tensors, and leaves
            # the file in the cache that the next call reads.
            chosen.get_state_dict(progress=False, check_hash=True, weights_only=True)
            with torch.random.fork_rng(devices=[]):  # weights are drawn before they are loaded
                loaded = models.get_model(architecture, weights=chosen, progress=False)
            steps = chosen.transforms()
            mean, std = (torch.tensor(each)[:, None, None] for each in (steps.mean, steps.std))
            return nn.Sequential(Normalize(mean, std), loaded).eval()
        if image_shape[0] != 3:
            raise SettingsError(
                f"torchvision's networks take images of 3 channels, and these have {image_shape[0]}; "
                "choose another network, such as timm:resnet18 or cnn."
            )
        size = {"image_size": image_shape[1]} if architecture.startswith("vit_") else {}
        return models.get_model(architecture, weights=None, num_classes=feature_dim, **size)

    return build
