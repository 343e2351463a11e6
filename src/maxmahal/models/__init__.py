"""Networks by name, and the classifier that joins one to a head. A new network is one new file and one line here."""

from collections.abc import Callable

from torch import nn

from maxmahal.models.classifier import Classifier, Normalize, blank_normalization, fit_normalization
from maxmahal.models.cnn import SmallCNN
from maxmahal.models.head import Head
from maxmahal.models.predict import accuracy, eval_mode, map_batches, predict_labels
from maxmahal.models.resnet import ResNet18, ResNetV1, ResNetV2

BACKBONES: dict[str, Callable[[tuple[int, int, int], int], nn.Module]] = {
    "cnn": lambda shape, dim: SmallCNN(in_channels=shape[0], image_size=shape[1:], feature_dim=dim),
    "resnet32": lambda shape, dim: ResNetV1(5, in_channels=shape[0], feature_dim=dim),
    "resnet110": lambda shape, dim: ResNetV1(18, in_channels=shape[0], feature_dim=dim, damped=True),
    "resnet32wide": lambda shape, dim: ResNetV1(5, in_channels=shape[0], feature_dim=dim, widened=256),
    "resnet110wide": lambda shape, dim: ResNetV1(18, in_channels=shape[0], feature_dim=dim, widened=256, damped=True),
    "resnet47v2": lambda shape, dim: ResNetV2(5, in_channels=shape[0], feature_dim=dim),
    "resnet164v2": lambda shape, dim: ResNetV2(18, in_channels=shape[0], feature_dim=dim),
    "resnet18": lambda shape, dim: ResNet18(in_channels=shape[0], feature_dim=dim),
}
"""Networks by the name that settings use; each takes the image shape and the number of features."""

__all__ = [
    "BACKBONES",
    "Classifier",
    "Head",
    "Normalize",
    "ResNet18",
    "ResNetV1",
    "ResNetV2",
    "SmallCNN",
    "accuracy",
    "blank_normalization",
    "eval_mode",
    "fit_normalization",
    "map_batches",
    "predict_labels",
]
