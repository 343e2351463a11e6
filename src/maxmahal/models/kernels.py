"""3x3 convolutions of few channels, as Triton kernels: the vendor's fill a quarter of their tiles with 16 channels.

A program takes a run of neighbouring pixels with all their channels and adds up nine small matrix products, one per
tap. Images are channels_last, stride and padding are 1, sums are float32, and channels are filled up to a power of two.
What a residual network does with a sum next, a program does before it writes: a bias, another image, and a ReLU or, in
the backward pass, the ReLU's zeros.
"""

# ruff: noqa: N803 - a compile-time constant is written in capitals
# mypy: disable-error-code="import-not-found,no-untyped-def,untyped-decorator"

from typing import no_type_check

import torch
import triton
from torch import Tensor
from triton import language as tl

# Measured on an H200 with 16 and 32 channels.
PIXELS, WARPS = 128, 2
SUMMED_PIXELS, SUMMING_WARPS = 64, 2
PROGRAMS = 264  # that share the sums over all pixels: two for each multiprocessor, and for each of three rows of taps


# All that is known of an operator which a pass puts into a graph: it wants its inputs as the graph says they lie.
LAYOUT = (torch.Tag.needs_fixed_stride_order,)


@triton.jit
@no_type_check
def _convolve(images, weight, bias, addend, source, out, total, height, width, per_in, per_out, per_row, per_column,
              first, ins, outs, INS: tl.constexpr, OUTS: tl.constexpr, PIXELS: tl.constexpr, BIAS: tl.constexpr,
              ADDEND: tl.constexpr, SOURCE: tl.constexpr, RELU: tl.constexpr):  # fmt: skip
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    row, column = (pixel // width) % height, pixel % width
    into, onto = tl.arange(0, INS), tl.arange(0, OUTS)
    sums = tl.zeros((PIXELS, OUTS), tl.float32)
    for down in tl.static_range(-1, 2):
        for right in tl.static_range(-1, 2):
            inside = (row + down >= 0) & (row + down < height) & (column + right >= 0) & (column + right < width)
            inside = inside & (pixel < total)
            where = (pixel + down * width + right)[:, None] * ins + into[None, :]
            seen = tl.load(images + where, mask=inside[:, None] & (into < ins)[None, :], other=0.0)
            tap = first + (down + 1) * per_row + (right + 1) * per_column
            known = (into < ins)[:, None] & (onto < outs)[None, :]
            matrix = tl.load(weight + tap + into[:, None] * per_in + onto[None, :] * per_out, mask=known, other=0.0)
            sums = tl.dot(seen, matrix, sums)
    where = pixel[:, None] * outs + onto[None, :]
    known = (pixel < total)[:, None] & (onto < outs)[None, :]
    if BIAS:
        sums += tl.load(bias + onto, mask=onto < outs, other=0.0).to(tl.float32)[None, :]
    if ADDEND:
        sums += tl.load(addend + where, mask=known, other=0.0).to(tl.float32)
    # Compared this way round NaN stays NaN.
    if RELU:
        sums = tl.where(sums <= 0, 0.0, sums)
    if SOURCE:
        sums = tl.where(tl.load(source + where, mask=known, other=0.0).to(tl.float32) <= 0, 0.0, sums)
    tl.store(out + where, sums.to(out.dtype.element_ty), mask=known)


@triton.jit
@no_type_check
def _sum_over_pixels(images, gradient, out, total, each, height, width, ins, outs,
                     INS: tl.constexpr, OUTS: tl.constexpr, PIXELS: tl.constexpr):  # fmt: skip
    program, down = tl.program_id(0), tl.program_id(1) - 1
    into, onto = tl.arange(0, INS), tl.arange(0, OUTS)
    left = tl.zeros((INS, OUTS), tl.float32)
    middle = tl.zeros((INS, OUTS), tl.float32)
    right = tl.zeros((INS, OUTS), tl.float32)
    for start in range(0, each, PIXELS):
        pixel = program * each + start + tl.arange(0, PIXELS)
        row, column = (pixel // width) % height, pixel % width
        inside = (pixel < total) & (row + down >= 0) & (row + down < height)
        at = pixel[:, None] * outs + onto[None, :]
        change = tl.load(gradient + at, mask=(pixel < total)[:, None] & (onto < outs)[None, :], other=0.0)
        seen_at = (pixel + down * width)[None, :] * ins + into[:, None]
        known = (into < ins)[:, None]
        seen = tl.load(images + seen_at - ins, mask=(inside & (column > 0))[None, :] & known, other=0.0)
        left = tl.dot(seen, change, left)
        seen = tl.load(images + seen_at, mask=inside[None, :] & known, other=0.0)
        middle = tl.dot(seen, change, middle)
        seen = tl.load(images + seen_at + ins, mask=(inside & (column < width - 1))[None, :] & known, other=0.0)
        right = tl.dot(seen, change, right)
    place = (program * 9 + (down + 1) * 3) * ins * outs + into[:, None] * outs + onto[None, :]
    known = (into < ins)[:, None] & (onto < outs)[None, :]
    tl.store(out + place, left, mask=known)
    tl.store(out + place + ins * outs, middle, mask=known)
    tl.store(out + place + 2 * ins * outs, right, mask=known)


# What becomes of a sum before it is written: a bias, an addend, zero where a source is not positive, a ReLU.
Ending = tuple[Tensor | None, Tensor | None, Tensor | None, bool]


def _launch(
    images: Tensor, weight: Tensor, outs: int, strides: tuple[int, int, int, int], first: int, ending: Ending
) -> Tensor:
    bias, addend, source, relu = ending
    images = _laid_out(images)
    count, ins, height, width = images.shape
    out = images.new_empty(count, height, width, outs).permute(0, 3, 1, 2)
    total = count * height * width
    addend, source = (None if each is None else _laid_out(each) for each in (addend, source))
    _convolve[triton.cdiv(total, PIXELS),](
        images, weight, bias, addend, source, out, total, height, width, *strides, first, ins, outs,
        INS=_filled(ins), OUTS=_filled(outs), PIXELS=PIXELS, BIAS=bias is not None, ADDEND=addend is not None,
        SOURCE=source is not None, RELU=relu, num_warps=WARPS,
    )  # fmt: skip
    return out


def _forth(images: Tensor, weight: Tensor, bias: Tensor | None, addend: Tensor | None, relu: bool) -> Tensor:
    per_out, per_in, per_row, per_column = weight.stride()
    strides = (per_in, per_out, per_row, per_column)
    return _launch(images, weight, weight.shape[0], strides, 0, (bias, addend, None, relu))


def _back(gradient: Tensor, weight: Tensor, addend: Tensor | None, source: Tensor | None) -> Tensor:
    """The same sum with the taps and the channels turned round."""
    per_out, per_in, per_row, per_column = weight.stride()
    strides = (per_out, per_in, -per_row, -per_column)
    return _launch(
        gradient, weight, weight.shape[1], strides, 2 * (per_row + per_column), (None, addend, source, False)
    )


def _laid_out(images: Tensor) -> Tensor:
    return images.contiguous(memory_format=torch.channels_last)


def _filled(channels: int) -> int:
    """The least size of a matrix product is 16."""
    return max(16, 1 << (channels - 1).bit_length())


@torch.library.custom_op("maxmahal::convolve", mutates_args=(), tags=LAYOUT)
def convolve(images: Tensor, weight: Tensor) -> Tensor:
    """``F.conv2d(images, weight, padding=1)``."""
    return _forth(images, weight, None, None, relu=False)


@torch.library.custom_op("maxmahal::convolve_and_add", mutates_args=(), tags=LAYOUT)
def convolve_and_add(images: Tensor, weight: Tensor, bias: Tensor | None, addend: Tensor | None, relu: bool) -> Tensor:
    """``F.conv2d(images, weight, bias, padding=1) + addend``, with a ReLU at the end or without."""
    return _forth(images, weight, bias, addend, relu)


@torch.library.custom_op("maxmahal::convolve_back", mutates_args=(), tags=LAYOUT)
def convolve_back(gradient: Tensor, weight: Tensor) -> Tensor:
    """What a gradient of the output is for the images."""
    return _back(gradient, weight, None, None)


@torch.library.custom_op("maxmahal::convolve_back_and_add", mutates_args=(), tags=LAYOUT)
def convolve_back_and_add(gradient: Tensor, weight: Tensor, addend: Tensor | None, source: Tensor) -> Tensor:
    """The same plus another gradient, and through the ReLU that the images came out of: ``source`` is what it gave."""
    return _back(gradient, weight, addend, source)


@torch.library.custom_op("maxmahal::convolve_weight", mutates_args=(), tags=LAYOUT)
def convolve_weight(images: Tensor, gradient: Tensor) -> Tensor:
    """What a gradient of the output is for the weight."""
    images, gradient = _laid_out(images), _laid_out(gradient)
    count, ins, height, width = images.shape
    outs, total = gradient.shape[1], count * height * width
    each = triton.cdiv(triton.cdiv(total, PROGRAMS), SUMMED_PIXELS) * SUMMED_PIXELS
    programs = triton.cdiv(total, each)
    parts = torch.empty(programs, 3, 3, ins, outs, device=images.device)
    _sum_over_pixels[programs, 3](
        images, gradient, parts, total, each, height, width, ins, outs,
        INS=_filled(ins), OUTS=_filled(outs), PIXELS=SUMMED_PIXELS, num_warps=SUMMING_WARPS,
    )  # fmt: skip
    return parts.sum(dim=0).permute(3, 2, 0, 1).to(images.dtype, memory_format=torch.channels_last)


OPERATORS = (convolve, convolve_and_add, convolve_back, convolve_back_and_add, convolve_weight)


@convolve.register_fake
@convolve_and_add.register_fake
def _convolved(images: Tensor, weight: Tensor, *_ending: object) -> Tensor:
    count, _, height, width = images.shape
    return images.new_empty(count, height, width, weight.shape[0]).permute(0, 3, 1, 2)


@convolve_back.register_fake
@convolve_back_and_add.register_fake
def _convolved_back(gradient: Tensor, weight: Tensor, *_ending: object) -> Tensor:
    count, _, height, width = gradient.shape
    return gradient.new_empty(count, height, width, weight.shape[1]).permute(0, 3, 1, 2)


@convolve_weight.register_fake
def _weight(images: Tensor, gradient: Tensor) -> Tensor:
    return images.new_empty(gradient.shape[1], 3, 3, images.shape[1]).permute(0, 3, 1, 2)
