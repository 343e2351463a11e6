"""Whether a network can bring features to all the centers it is trained towards."""

import torch
from torch import Tensor, nn

from maxmahal.centers import squared_distance_to_flat
from maxmahal.data import ImageData
from maxmahal.losses import EMC, MMC
from maxmahal.models import Classifier, eval_mode

NEGLIGIBLE = 1e-6  # of the centers' mean square


def out_of_reach(model: Classifier, data: ImageData) -> str:
    """A sentence where the last layer takes fewer values than the centers span dimensions; empty where it does not.

    Losses with a softmax need no feature at its center.
    """
    head = model.head
    if not isinstance(head, MMC | EMC) or (layer := _last_linear(model, data)) is None:
        return ""
    missed = squared_distance_to_flat(head.centers, layer.in_features)
    if missed <= NEGLIGIBLE * float(head.centers.square().sum(dim=1).mean()):
        return ""
    return (
        f"Features come from a linear layer of width {layer.in_features} and fill no more dimensions than that, while "
        f"the {len(head.centers)} centers span more: the mean of ½‖z - μ‖² cannot fall below {missed / 2:.1f}, and "
        "classes will be given up. Choose a model.backbone that pools more values (resnet32wide has 256), or centers "
        "that span less."
    )


def _last_linear(model: Classifier, data: ImageData) -> nn.Linear | None:
    """The linear layer whose output is the features, whoever wrote the network; None where there is no such layer."""
    seen: list[tuple[nn.Linear, Tensor]] = []
    layers = [module for module in model.backbone.modules() if isinstance(module, nn.Linear)]
    hooks = [layer.register_forward_hook(lambda layer, _, output: seen.append((layer, output))) for layer in layers]
    try:
        with eval_mode(model), torch.no_grad():
            features = model.features(data.first(2).float_images())
    finally:
        for hook in hooks:
            hook.remove()
    return next((layer for layer, output in seen if output is features), None)
