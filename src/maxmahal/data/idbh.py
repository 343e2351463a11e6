"""The augmentation for long adversarial training, IDBH (Li and Spratling 2023), and CutMix (Yun et al. 2019).

IDBH is a flip, a crop that is moved on black, one of eight changes of colour or shape, and an erased rectangle: in half
of the images ("weak") or in all ("strong"). CutMix pastes a rectangle of another image; the labels count by area.
"""

import math
from functools import partial

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor
from torch.nn import functional as F

from maxmahal.data.types import to_unit_range

COLUMNS = 16
_LARGEST_CROP = 10 / 32  # of a side, rows and columns together
_CHANGES = ("saturation", "brightness", "contrast", "sharpness", "autocontrast", "equalize", "shear", "rotation")
_LOW = (0.1, 0.5, 0.5, 0.1, 0.0, 0.0, 0.05, 1.0)  # of each change: the factor of colours, the shear's angle in radians,
_HIGH = (1.9, 1.9, 1.9, 1.9, 0.0, 0.0, 0.15, 11.0)  # and the rotation in degrees, which is rounded down
_AREAS, _ASPECTS = (0.02, 0.33), (0.3, 3.3)  # of the erased rectangle
_GREY = (299, 587, 114)  # thousandths of red, green and blue


def idbh(
    images: UInt8[Tensor, "n c h w"], uniforms: Float[Tensor, "n 16"], *, erased: float
) -> Float[Tensor, "n c h w"]:
    """Columns of ``uniforms``: 0 flip; 1-6 crop; 7-10 the change, its size, sign and axis; 11-15 the rectangle."""
    moved = _flip_and_crop(images, uniforms[:, :7])
    kinds = _whole_number(uniforms[:, 7], torch.tensor(len(_CHANGES)))
    low, high = (torch.tensor(sizes, device=images.device)[kinds] for sizes in (_LOW, _HIGH))
    sizes = low + (high - low) * uniforms[:, 8]
    changed = _reshape(_recolour(moved, kinds, sizes), kinds, sizes, uniforms[:, 9:11])
    return torch.where(_erased(uniforms[:, 11:], images.shape[2], images.shape[3], erased), 0.0, changed)


weak, strong = partial(idbh, erased=0.5), partial(idbh, erased=1.0)


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


def _flip_and_crop(images: UInt8[Tensor, "n c h w"], uniforms: Float[Tensor, "n 7"]) -> UInt8[Tensor, "n c h w"]:
    """Mirror half of the images, cut a rectangle out of each and put it elsewhere on black."""
    height, width = images.shape[2:]
    removed = _whole_number(uniforms[:, 1], torch.tensor(round(_LARGEST_CROP * min(height, width)) + 1))
    fewer_columns = _whole_number(uniforms[:, 2], removed + 1)
    fewer = torch.stack([removed - fewer_columns, fewer_columns], dim=1)
    sources = _whole_number(uniforms[:, 3:5], fewer + 1)
    places = _whole_number(uniforms[:, 5:7], fewer + 1)
    rows, columns = torch.arange(height, device=images.device), torch.arange(width, device=images.device)
    rows, columns = rows + (sources - places)[:, :1], columns + (sources - places)[:, 1:]
    columns = torch.where(uniforms[:, :1] < 0.5, width - 1 - columns, columns)
    kept = _in_rectangle(places, places + torch.tensor([height, width], device=images.device) - fewer, height, width)
    return torch.where(kept, _look(images, rows[:, :, None], columns[:, None, :]), 0)


def _look(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The pixel of each image at each row and column; beyond its sides, that of the side."""
    height, width = images.shape[2:]
    index = rows.clamp(0, height - 1) * width + columns.clamp(0, width - 1)
    return images.flatten(2).gather(2, index.flatten(1)[:, None].expand(-1, images.shape[1], -1)).view_as(images)


def _recolour(
    images: UInt8[Tensor, "n c h w"], kinds: Int[Tensor, " n"], sizes: Float[Tensor, " n"]
) -> Float[Tensor, "n c h w"]:
    """pivot + factor·(image - pivot), where the pivot is grey, black, the mean grey or a blurred image; or a curve."""
    exact, (height, width) = to_unit_range(images), images.shape[2:]
    weights = _GREY if images.shape[1] == len(_GREY) else (1,) * images.shape[1]
    # Sums of integers are exact, so they do not depend on the batch.
    grey = (images * torch.tensor(weights, device=images.device)[:, None, None]).sum(dim=1, keepdim=True)
    means = grey.sum(dim=(2, 3), keepdim=True) / (height * width)
    pivots = [grey / (255 * sum(weights)), torch.zeros_like(exact), means / (255 * sum(weights)), _blurred(exact)]
    curved = torch.where(_of_kind(kinds, "autocontrast"), _autocontrast(exact), exact)
    changed = torch.where(_of_kind(kinds, "equalize"), _equalize(images), curved)
    for name, pivot in zip(_CHANGES, pivots, strict=False):
        new = pivot + sizes[:, None, None, None] * (exact - pivot)
        changed = torch.where(_of_kind(kinds, name), new.clamp_(0, 1), changed)
    return changed


def _of_kind(kinds: Int[Tensor, " n"], name: str) -> Bool[Tensor, "n 1 1 1"]:
    return (kinds == _CHANGES.index(name))[:, None, None, None]


def _blurred(images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
    """The mean of each pixel and its neighbours, in which it counts five times; pixels at the sides stay."""
    if min(images.shape[2:]) < 3:
        return images
    inner = images[:, :, 1:-1, 1:-1]
    mean = (9 * F.avg_pool2d(images, 3, stride=1) + 4 * inner) / 13
    blurred = images.clone()
    blurred[:, :, 1:-1, 1:-1] = mean
    return blurred


def _autocontrast(images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
    """Each channel stretched to [0, 1], unless it is constant."""
    low, high = images.amin(dim=(2, 3), keepdim=True), images.amax(dim=(2, 3), keepdim=True)
    return torch.where(high > low, (images - low) / (high - low).clamp_min(1 / 255), images)


def _equalize(images: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
    """The curve that spreads each channel's values most evenly: by how many of its pixels are darker."""
    pixels = images.flatten(2).contiguous()
    darker = torch.searchsorted(pixels.sort(dim=2).values, pixels)
    most = darker.amax(dim=2, keepdim=True)  # darker than the brightest value
    step = most // 255
    curved = ((darker + step // 2) // step.clamp_min(1)).clamp_max(255)
    return to_unit_range(torch.where(step > 0, curved, pixels).view_as(images).to(torch.uint8))


def _reshape(
    images: Float[Tensor, "n c h w"],
    kinds: Int[Tensor, " n"],
    sizes: Float[Tensor, " n"],
    uniforms: Float[Tensor, "n 2"],
) -> Float[Tensor, "n c h w"]:
    """Rotate or shear some about the middle, to either side and along either axis: nearest pixels, on black."""
    height, width = images.shape[2:]
    down = (torch.arange(height, device=images.device) - (height - 1) / 2)[:, None]
    right = torch.arange(width, device=images.device) - (width - 1) / 2
    signed = torch.where(uniforms[:, 0] < 0.5, -sizes, sizes)[:, None, None]
    turned, sheared = (kinds == _CHANGES.index(name) for name in ("rotation", "shear"))
    angle = torch.where(turned[:, None, None], torch.deg2rad(signed.trunc()), 0.0)
    slope = torch.where(sheared[:, None, None], signed.tan(), 0.0)
    along_rows = torch.where(uniforms[:, 1, None, None] < 0.5, slope, 0.0)
    rows = (height - 1) / 2 + angle.cos() * down + (angle.sin() + along_rows) * right
    columns = (width - 1) / 2 + angle.cos() * right - (angle.sin() - (slope - along_rows)) * down
    rows, columns = rows.round().long(), columns.round().long()
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    return torch.where(inside[:, None], _look(images, rows, columns), 0.0)


def _erased(uniforms: Float[Tensor, "n 5"], height: int, width: int, share: float) -> Bool[Tensor, "n 1 h w"]:
    """A random rectangle in this share of the images (random erasing, Zhong et al. 2020)."""
    area = (_AREAS[0] + (_AREAS[1] - _AREAS[0]) * uniforms[:, 1]) * (height * width)
    logs = [math.log(aspect) for aspect in _ASPECTS]
    aspect = (logs[0] + (logs[1] - logs[0]) * uniforms[:, 2]).exp()
    most = torch.tensor([height, width], device=uniforms.device)
    sides = torch.stack([(area * aspect).sqrt(), (area / aspect).sqrt()], dim=1).round().long().minimum(most)
    sides = torch.where(uniforms[:, :1] < share, sides, 0)
    starts = _whole_number(uniforms[:, 3:], most - sides + 1)
    return _in_rectangle(starts, starts + sides, height, width)


def _whole_number(uniforms: Tensor, count: Tensor) -> Tensor:
    """An integer from 0 to count - 1 for each number in [0, 1); the clamp guards against rounding up."""
    count = count.to(uniforms.device)
    return (uniforms * count).long().minimum(count - 1)
