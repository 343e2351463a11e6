"""What the model itself predicts, in float32; for a stochastic model, the average over many draws."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.attacks.oracle import Model, judge
from maxmahal.random import own_stream

DRAWS = 20  # predictions of a stochastic model per image: its accuracy is their mean
EOT = 10  # draws per gradient of a stochastic model; more sharpen the gradient less than another step would
# Relative to the range of a sample's logits: the order of a float32 sum changes them by a millionth, random noise that
# could stop an attack by far more.
ROUNDING = 1e-3
# Share of the samples: rounding may change one that lies at a kink, a random layer changes nearly all.
STOCHASTIC_SHARE = 0.02


def mean_correct(
    model: Model, images: Float[Tensor, "n c h w"], labels: Int[Tensor, " n"], draws: int
) -> Float[Tensor, " n"]:
    """How often the model predicts each image's label, over so many draws."""
    right = torch.zeros(len(images), device=images.device)
    for _ in range(draws):
        right += (judge(model, images).predictions == labels).float()
    return right / draws


def is_stochastic(model: Model, images: Float[Tensor, "n c h w"]) -> bool:
    """Whether two passes of the same images differ by more than rounding can explain."""
    with own_stream(images.device, 0):
        first, second = judge(model, images).logits, judge(model, images).logits
    return share_that_differs(first, second) > STOCHASTIC_SHARE


def share_that_differs(first: Float[Tensor, "n l"], second: Float[Tensor, "n l"]) -> float:
    """The share of samples whose logits differ by more than rounding can explain."""
    spread = (first.amax(dim=1) - first.amin(dim=1)).clamp_min(torch.finfo(first.dtype).tiny)
    return float(((first - second).abs().amax(dim=1) > ROUNDING * spread).double().mean())
