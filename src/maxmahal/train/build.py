"""Build a model from settings."""

from itertools import chain

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from maxmahal.centers import CENTERS
from maxmahal.data import ImageData
from maxmahal.errors import SettingsError
from maxmahal.imports import call_function, check_call, import_function, names_a_function, only_named
from maxmahal.losses import LOSSES, takes_centers
from maxmahal.models import BACKBONES, Classifier, blank_normalization, eval_mode, fit_normalization
from maxmahal.random import stream_key
from maxmahal.settings import to_table
from maxmahal.train.config import ModelSettings, Settings


def new_classifier(settings: Settings, data: ImageData) -> Classifier:
    """A model with new weights; they depend only on the settings and the training data."""
    shape = (data.num_classes, settings.model.feature_dim)
    centers = torch.zeros(shape)
    with torch.random.fork_rng(devices=[]), only_named(to_table(settings)):
        if takes_centers(settings.loss.name):
            centers = preset_centers(settings, data.num_classes, data.superclasses)
        # Networks are built on the CPU, so only its generator is used; the caller's GPU generators do not change.
        torch.default_generator.manual_seed(stream_key("weights", settings.train.seed))
        model = _assemble(settings, data.image_shape, centers)
    model.normalize = fit_normalization(settings.model.normalize, data.images.cpu())
    model, name = model.to(data.device), settings.model.backbone
    if names_a_function(name):  # it must give trainable features, which is checked before anything is saved
        with eval_mode(model):
            features = call_function(name, model.features, data.first(2).float_images())
        if features.dtype != torch.float32 or not features.requires_grad:
            raise SettingsError(
                f"{name} must give float32 features that depend on trainable parameters; "
                f"got {features.dtype}{'' if features.requires_grad else ' without a gradient'}."
            )
    return model


def preset_centers(
    settings: Settings, num_classes: int, superclasses: tuple[int, ...] | None = None
) -> Float[Tensor, "l d"]:
    """The initial centers of a run with these settings."""
    dim = settings.model.feature_dim
    return settings.centers.build(CENTERS, num_classes=num_classes, dim=dim, superclasses=superclasses)


def empty_classifier(
    settings: Settings, image_shape: tuple[int, int, int], num_classes: int, backbone: nn.Module | None = None
) -> Classifier:
    """A model of the right shape, for the weights of a checkpoint."""
    centers = torch.zeros(num_classes, settings.model.feature_dim)
    with torch.random.fork_rng(devices=[]):
        return _assemble(settings, image_shape, centers, backbone)


def _assemble(
    settings: Settings,
    image_shape: tuple[int, int, int],
    centers: Float[Tensor, "l d"],
    backbone: nn.Module | None = None,
) -> Classifier:
    if backbone is None and names_a_function(settings.model.backbone):
        backbone = own_backbone(settings.model, image_shape)
    elif backbone is None:
        backbone = BACKBONES[settings.model.backbone](image_shape, settings.model.feature_dim)
    head = settings.loss.build(LOSSES, centers=centers, num_classes=len(centers), feature_dim=centers.shape[1])
    return Classifier(backbone, head, blank_normalization(settings.model.normalize, image_shape))


def own_backbone(settings: ModelSettings, image_shape: tuple[int, int, int]) -> nn.Module:
    """The network that the user's function returns for (image_shape, feature_dim)."""
    factory = import_function(settings.backbone)
    check_call(settings.backbone, factory, "(image_shape, feature_dim)", image_shape, settings.feature_dim)
    backbone = call_function(settings.backbone, factory, image_shape, settings.feature_dim)
    if not isinstance(backbone, nn.Module):
        raise SettingsError(
            f"model.backbone = '{settings.backbone}' must return a torch.nn.Module when called with "
            f"(image_shape, feature_dim); it returned {type(backbone).__name__}."
        )
    if lazy := [
        name for name, tensor in chain(backbone.named_parameters(), backbone.named_buffers()) if is_lazy(tensor)
    ]:
        raise SettingsError(
            f"model.backbone = '{settings.backbone}' must know its shapes before it sees images, but '{lazy[0]}' does "
            "not; give its lazy layers their widths, which follow from image_shape."
        )
    return backbone
