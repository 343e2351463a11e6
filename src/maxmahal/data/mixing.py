"""CutMix (Yun et al. 2019): a rectangle of another image is pasted in, and the labels count by area."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def cutmix(
    images: Float[Tensor, "n c h w"],
    others: Float[Tensor, "n c h w"],
    uniforms: Float[Tensor, "n 4"],
    probability: float = 1.0,
) -> tuple[Float[Tensor, "n c h w"], Float[Tensor, " n"]]:
    """The mixed images, and the share of each that is still its own.

    ``uniforms`` are four numbers in [0, 1) per image: whether it is mixed, the share of the rectangle, and where its
    middle is. The rectangle has the image's proportions and ends at its edges, so the share is counted in pixels.
    """
    height, width = images.shape[2:]
    sides = uniforms[:, 1:2].sqrt() * torch.tensor([height, width], device=images.device)
    halves = torch.where(uniforms[:, :1] < probability, sides, 0.0).long() / 2
    middles = uniforms[:, 2:] * torch.tensor([height, width], device=images.device)
    starts, ends = (middles - halves).round().long(), (middles + halves).round().long()
    pasted = in_rectangle(starts, ends, height, width)
    shares = 1 - pasted.sum(dim=(1, 2, 3), dtype=torch.int64) / (height * width)
    return torch.where(pasted, others, images), shares


def in_rectangle(
    starts: Int[Tensor, "n 2"], ends: Int[Tensor, "n 2"], height: int, width: int
) -> Bool[Tensor, "n 1 h w"]:
    """Which pixels lie in a rectangle per image, given by its first row and column and by those after its last."""
    rows, columns = torch.arange(height, device=starts.device), torch.arange(width, device=starts.device)
    in_rows = (rows >= starts[:, :1]) & (rows < ends[:, :1])
    in_columns = (columns >= starts[:, 1:]) & (columns < ends[:, 1:])
    return (in_rows[:, :, None] & in_columns[:, None, :])[:, None]
