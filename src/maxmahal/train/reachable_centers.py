"""Check that the features of a network can reach all class centers."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from maxmahal.centers import dimensions_spanned, squared_distance_to_flat
from maxmahal.data import ImageData
from maxmahal.models import Classifier, eval_mode

WARN_ABOVE = 0.01  # of the centers' mean square; a smaller residual does not matter


def unreachable_centers(model: Classifier, data: ImageData) -> str:
    """A warning if MMC's features have fewer dimensions than the centers span, otherwise an empty text."""
    head = model.head
    if not head.zero_at_centers or head.class_centers is None or (width := _width(model, data)) is None:
        return ""
    centers = head.class_centers.cpu()
    missed = squared_distance_to_flat(centers, width, data.labels.cpu().bincount(minlength=len(centers)))
    if missed < WARN_ABOVE * float(centers.square().sum(dim=1).mean()):
        return ""
    return (
        f"Features come from a linear layer of width {width} and span at most that many dimensions, but the "
        f"{len(centers)} centers span {dimensions_spanned(centers)}: with these images the mean of "
        f"½‖z - μ‖² cannot fall below {missed / 2:.3g}, and some classes may never be predicted. Widen the layer "
        "before it; the backbones resnet32wide and resnet110wide pool 256 values."
    )


@dataclass(frozen=True, eq=False)
class _Call:
    """One call of a linear layer."""

    width: int
    input: Tensor | None
    """None if it was passed by name."""
    output: Tensor
    version: int
    """Of the output; in-place writes increase it."""

    def made(self, tensor: Tensor) -> bool:
        """Whether that tensor is the layer's output, or a view of all of it, and was not changed since."""
        whole = tensor.data_ptr() == self.output.data_ptr() and tensor.numel() == self.output.numel()
        return whole and self.output._version == self.version


def _width(model: Classifier, data: ImageData) -> int | None:
    """The smallest width of the consecutive linear layers that produce the features; None without such layers."""
    calls: list[_Call] = []
    layers = [module for module in model.backbone.modules() if isinstance(module, nn.Linear)]

    def keep(layer: nn.Linear, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        calls.append(_Call(layer.in_features, inputs[0] if inputs else None, output, output._version))

    hooks = [layer.register_forward_hook(keep) for layer in layers]
    devices = [data.device] if data.device.type == "cuda" else []
    try:
        # A network may draw random numbers even here, which must not change the training.
        with eval_mode(model), torch.no_grad(), torch.random.fork_rng(devices):
            features = model.features(data.first(2).float_images())
    finally:
        for hook in hooks:
            hook.remove()
    widths: list[int] = []
    tensor: Tensor | None = features
    while tensor is not None and (call := next((call for call in calls if call.made(tensor)), None)) is not None:
        widths.append(call.width)
        calls.remove(call)
        tensor = call.input
    return min(widths, default=None)
