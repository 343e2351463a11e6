"""Parts of taking a gradient: outputs to differentiate by, and gradients that are no numbers."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from maxmahal.attacks.objectives import Outputs


def leaves_of(outputs: Outputs) -> Outputs:
    """The same outputs cut off from the model, for the objective to be differentiated by."""
    features = None if outputs.features is None else outputs.features.detach().requires_grad_()
    return Outputs(outputs.logits.detach().requires_grad_(), features)


def grad_or_none(
    outputs: list[Tensor], inputs: list[Tensor], grad_outputs: list[Tensor] | None = None
) -> list[Tensor | None]:
    """The gradient by each input; None for one that nothing depends on."""
    return list(torch.autograd.grad(outputs, inputs, grad_outputs, allow_unused=True)) if inputs else []


def without_gaps(gradient: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
    """Zero where a gradient is not finite.

    One bad pixel must not spoil an image: a step without information beats a step into NaN.
    """
    return torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0)


def has_gaps(gradient: Float[Tensor, "n c h w"]) -> Bool[Tensor, " n"]:
    """Which gradients are NaN or infinite in some pixel; nothing is read back from the device.

    Zero times anything else is zero, and a sum is several times faster than asking every pixel whether it is finite.
    """
    return (0 * gradient).flatten(1).sum(dim=1).isnan()
