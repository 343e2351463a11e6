"""Whether a network can bring features to all the centers it is trained towards."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from maxmahal.centers import dimensions_spanned, squared_distance_to_flat
from maxmahal.data import ImageData
from maxmahal.models import Classifier, eval_mode

WORTH_TELLING = 0.01  # of the centers' mean square: a floor below that is lost in any loss


def out_of_reach(model: Classifier, data: ImageData) -> str:
    """A sentence where MMC's features pass through fewer values than the centers span dimensions, else an empty one.

    Losses with a softmax need no feature at its center, and the centers of EMC move. Layers inside of something that
    was compiled are not seen.
    """
    head = model.head
    if not head.zero_at_centers or head.class_centers is None or (width := _width(model, data)) is None:
        return ""
    centers = head.class_centers.cpu()
    missed = squared_distance_to_flat(centers, width, data.labels.cpu().bincount(minlength=len(centers)))
    if missed < WORTH_TELLING * float(centers.square().sum(dim=1).mean()):
        return ""
    return (
        f"Features come from a linear layer of width {width} and fill no more dimensions than that, while the "
        f"{len(centers)} centers span {dimensions_spanned(centers)}: with these images the mean of "
        f"½‖z - μ‖² cannot fall below {missed / 2:.3g}, and some classes may never be answered right. Widen what comes "
        "before that layer; the backbones resnet32wide and resnet110wide pool 256 values."
    )


@dataclass(frozen=True, eq=False)
class _Call:
    """One linear layer at work."""

    width: int
    taken: Tensor | None
    """None where it was given by name."""
    given: Tensor
    version: int
    """Of what was given, which grows when somebody writes into it later."""

    def made(self, tensor: Tensor) -> bool:
        """Whether that tensor is what the layer gave, or a view of all of it, and nobody has changed it since."""
        whole = tensor.data_ptr() == self.given.data_ptr() and tensor.numel() == self.given.numel()
        return whole and self.given._version == self.version


def _width(model: Classifier, data: ImageData) -> int | None:
    """The least width of the linear layers that end in the features, one right after the other; None without any."""
    calls: list[_Call] = []
    layers = [module for module in model.backbone.modules() if isinstance(module, nn.Linear)]
    hooks = [layer.register_forward_hook(lambda *seen: calls.append(_call(*seen))) for layer in layers]
    try:
        # A network may draw random numbers even here, which would be missing from the training.
        with eval_mode(model), torch.no_grad(), torch.random.fork_rng(_devices(data)):
            features = model.features(data.first(2).float_images())
    finally:
        for hook in hooks:
            hook.remove()
    widths: list[int] = []
    tensor: Tensor | None = features
    while tensor is not None and (call := next((call for call in calls if call.made(tensor)), None)) is not None:
        widths.append(call.width)
        calls.remove(call)
        tensor = call.taken
    return min(widths, default=None)


def _call(layer: nn.Linear, taken: tuple[Tensor, ...], given: Tensor) -> _Call:
    return _Call(layer.in_features, taken[0] if taken else None, given, given._version)


def _devices(data: ImageData) -> list[torch.device]:
    return [data.device] if data.device.type == "cuda" else []
