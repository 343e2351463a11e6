"""Networks, and the classifier that joins a network to a head."""

from maxmahal.models.classifier import Classifier, Normalize, blank_normalization, fit_normalization
from maxmahal.models.cnn import SmallCNN
from maxmahal.models.head import Head
from maxmahal.models.predict import accuracy, eval_mode, map_batches, predict_labels
from maxmahal.models.registry import BACKBONES
from maxmahal.models.resnet import ResNet18, ResNetV1, ResNetV2

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
