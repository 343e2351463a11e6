"""The last word on an image: the model itself, in float32; of a model that draws, many draws."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.attacks.oracle import Model, judge

# Of the spread of a sample's logits: float32 sums in another order differ by a millionth, noise that stops an attack by
# far more.
ROUNDING = 1e-3
# Of the samples: one that lies between two kinks may round apart, a layer that draws moves nearly all.
DRAWN_SHARE = 0.02


def right_shares(
    model: Model, images: Float[Tensor, "n c h w"], labels: Int[Tensor, " n"], draws: int
) -> Float[Tensor, " n"]:
    """How often the model is right about each image, over so many draws."""
    right = torch.zeros(len(images), device=images.device)
    for _ in range(draws):
        right += (judge(model, images).predictions == labels).float()
    return right / draws


def draws_lots(model: Model, images: Float[Tensor, "n c h w"]) -> bool:
    """Whether two looks at the same images differ by more than the order of a sum could."""
    with torch.random.fork_rng([images.device] if images.device.type == "cuda" else []):
        torch.manual_seed(0)
        first, second = judge(model, images).logits, judge(model, images).logits
    return share_that_differs(first, second) > DRAWN_SHARE


def share_that_differs(first: Float[Tensor, "n l"], second: Float[Tensor, "n l"]) -> float:
    """Of the samples, whose logits differ by more than rounding could make them."""
    spread = (first.amax(dim=1) - first.amin(dim=1)).clamp_min(torch.finfo(first.dtype).tiny)
    return float(((first - second).abs().amax(dim=1) > ROUNDING * spread).double().mean())
