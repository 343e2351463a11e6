"""The strong augmentation for long adversarial training: crop-shift, one change of colour or shape, erasing, flips.

The parts are those of IDBH (Li and Spratling 2023); sizes and probabilities are ours. Beside it CutMix (Yun et al.
2019): a rectangle of another image is pasted in, and the labels count by area.
"""

import math

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from maxmahal.data.types import to_unit_range

COLUMNS = 14
_LARGEST_CROP = 11 / 32  # of a side, rows and columns together
_KINDS = 7  # none, brightness, contrast, saturation, rotation, shears along both axes
_LARGEST_CHANGE = 0.5  # of a factor of colour
_LARGEST_ANGLE = math.radians(15)
_LARGEST_SHEAR = 0.2
_ERASED = 0.5  # the share of images
_AREAS, _ASPECTS = (0.02, 0.33), (0.3, 1 / 0.3)  # of the erased rectangle


def strong(images: UInt8[Tensor, "n c h w"], uniforms: Float[Tensor, "n 14"]) -> Float[Tensor, "n c h w"]:
    """Columns of ``uniforms``: 0 flip; 1-6 crop; 7 and 8 the change of colour or shape; 9-13 the erased rectangle."""
    kinds = _whole_number(uniforms[:, 7], torch.tensor(_KINDS))
    coloured = _recolour(images, kinds, 2 * uniforms[:, 8] - 1)
    rows, columns = _positions(images, kinds, 2 * uniforms[:, 8] - 1, uniforms[:, 0] < 0.5)
    cropped = _crop_shift(coloured, rows, columns, uniforms[:, 1:7]).clamp_(0, 1)
    return torch.where(_erased(uniforms[:, 9:], *images.shape[2:]), 0.0, cropped)


def cutmix(
    images: Float[Tensor, "n c h w"],
    others: Float[Tensor, "n c h w"],
    uniforms: Float[Tensor, "n 4"],
    probability: float = 1.0,
) -> tuple[Float[Tensor, "n c h w"], Float[Tensor, " n"]]:
    """The mixed images, and the share of each that is still its own, counted in pixels.

    ``uniforms`` are four numbers in [0, 1) per image: whether it is mixed, the share of the rectangle, which has the
    image's proportions, and where its middle is.
    """
    height, width = images.shape[2:]
    sides = uniforms[:, 1:2].sqrt() * torch.tensor([height, width], device=images.device)
    halves = torch.where(uniforms[:, :1] < probability, sides, 0.0).long() / 2
    middles = uniforms[:, 2:] * torch.tensor([height, width], device=images.device)
    starts, ends = (middles - halves).round().long(), (middles + halves).round().long()
    pasted = _in_rectangle(starts, ends, height, width)
    shares = 1 - pasted.sum(dim=(1, 2, 3), dtype=torch.int64) / (height * width)
    return torch.where(pasted, others, images), shares


def _in_rectangle(
    starts: Int[Tensor, "n 2"], ends: Int[Tensor, "n 2"], height: int, width: int
) -> Bool[Tensor, "n 1 h w"]:
    """Which pixels lie in a rectangle per image, given by its first row and column and by those after its last."""
    rows, columns = torch.arange(height, device=starts.device), torch.arange(width, device=starts.device)
    in_rows = (rows >= starts[:, :1]) & (rows < ends[:, :1])
    in_columns = (columns >= starts[:, 1:]) & (columns < ends[:, 1:])
    return (in_rows[:, :, None] & in_columns[:, None, :])[:, None]


def _recolour(
    images: UInt8[Tensor, "n c h w"], kinds: Int[Tensor, " n"], sizes: Float[Tensor, " n"]
) -> Float[Tensor, "n c h w"]:
    """pivot + factor·(image - pivot): the pivot is black, the image's mean, or the grey of each pixel."""
    # Sums of integers are exact, so they do not depend on the batch.
    mean = images.sum(dim=(1, 2, 3), dtype=torch.int64) / (255 * images[0].numel())
    grey = images.sum(dim=1, keepdim=True, dtype=torch.int64) / (255 * images.shape[1])
    kinds, sizes = kinds[:, None, None, None], sizes[:, None, None, None]
    pivot = torch.where(kinds == 2, mean[:, None, None, None], torch.where(kinds == 3, grey, 0.0))
    factor = torch.where((kinds >= 1) & (kinds <= 3), 1 + _LARGEST_CHANGE * sizes, 1.0)
    return (pivot + factor * (to_unit_range(images) - pivot)).clamp_(0, 1)


def _positions(
    images: Tensor, kinds: Int[Tensor, " n"], sizes: Float[Tensor, " n"], mirrored: Tensor
) -> tuple[Float[Tensor, "n h w"], Float[Tensor, "n h w"]]:
    """The row and the column that each output pixel shows, after flip, rotation or shear about the middle."""
    height, width = images.shape[2:]
    down = (torch.arange(height, device=images.device) - (height - 1) / 2)[None, :, None]
    right = (torch.arange(width, device=images.device) - (width - 1) / 2)[None, None, :]
    right = torch.where(mirrored[:, None, None], -right, right)
    kinds, sizes = kinds[:, None, None], sizes[:, None, None]
    angle = torch.where(kinds == 4, _LARGEST_ANGLE * sizes, 0.0)
    along_rows = torch.where(kinds == 5, _LARGEST_SHEAR * sizes, angle.sin())
    along_columns = torch.where(kinds == 6, _LARGEST_SHEAR * sizes, -angle.sin())
    rows = (height - 1) / 2 + (angle.cos() * down + along_rows * right)
    columns = (width - 1) / 2 + (along_columns * down + angle.cos() * right)
    return rows, columns


def _crop_shift(
    images: Float[Tensor, "n c h w"],
    rows: Float[Tensor, "n h w"],
    columns: Float[Tensor, "n h w"],
    uniforms: Float[Tensor, "n 6"],
) -> Float[Tensor, "n c h w"]:
    """Cut a rectangle out, put it elsewhere on black, and look there at ``rows`` and ``columns``, bilinearly."""
    count, channels, height, width = images.shape
    removed = _whole_number(uniforms[:, 0], torch.tensor(round(_LARGEST_CROP * min(height, width)) + 1))
    fewer_columns = _whole_number(uniforms[:, 1], removed + 1)
    fewer = torch.stack([removed - fewer_columns, fewer_columns], dim=1)
    sources = _whole_number(uniforms[:, 2:4], fewer + 1)
    places = _whole_number(uniforms[:, 4:6], fewer + 1)
    result = torch.zeros_like(images)
    for below in (0, 1):
        for beside in (0, 1):
            weight, index = torch.ones_like(rows), torch.zeros_like(rows, dtype=torch.int64)
            for axis, (positions, side, next_one) in enumerate(((rows, height, below), (columns, width, beside))):
                before = positions.floor()
                inside = before.long() + next_one - places[:, axis, None, None]
                known = (inside >= 0) & (inside < side - fewer[:, axis, None, None])
                share = positions - before if next_one else 1 - (positions - before)
                weight = weight * torch.where(known, share, 0.0)
                index = index * side + (inside + sources[:, axis, None, None]).clamp(0, side - 1)
            seen = images.flatten(2).gather(2, index.flatten(1)[:, None].expand(count, channels, -1))
            result += weight[:, None] * seen.view_as(images)
    return result


def _erased(uniforms: Float[Tensor, "n 5"], height: int, width: int) -> Tensor:
    """A random rectangle in half of the images (random erasing, Zhong et al. 2020)."""
    area = (_AREAS[0] + (_AREAS[1] - _AREAS[0]) * uniforms[:, 1]) * (height * width)
    logs = [math.log(aspect) for aspect in _ASPECTS]
    aspect = (logs[0] + (logs[1] - logs[0]) * uniforms[:, 2]).exp()
    most = torch.tensor([height, width], device=uniforms.device)
    sides = torch.stack([(area * aspect).sqrt(), (area / aspect).sqrt()], dim=1).round().long().minimum(most)
    sides = torch.where(uniforms[:, :1] < _ERASED, sides, 0)
    starts = _whole_number(uniforms[:, 3:], most - sides + 1)
    return _in_rectangle(starts, starts + sides, height, width)


def _whole_number(uniforms: Tensor, count: Tensor) -> Tensor:
    """An integer from 0 to count - 1 for each number in [0, 1); the clamp guards against rounding up."""
    count = count.to(uniforms.device)
    return (uniforms * count).long().minimum(count - 1)
