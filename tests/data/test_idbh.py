"""The parts of IDBH against Pillow, scipy and slow, obvious versions."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from scipy import ndimage
from torch import Tensor

from maxmahal.data import augmentation, to_unit_range

KINDS = ("saturation", "brightness", "contrast", "sharpness", "autocontrast", "equalize", "shear", "rotation")
UNCHANGED = (1 + 0.5) / 8, 0.5 / 1.4  # brightness by a factor of 1
# Nothing flipped, cropped or erased.
STILL = [0.9, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, *UNCHANGED, 0.9, 0.0, 0.9, 0.0, 0.0, 0.0, 0.0]


def images_of(count: int = 1, side: int = 32, channels: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (count, channels, side, side), dtype=torch.uint8, generator=generator)


def smooth_images(count: int = 4) -> Tensor:
    """Like photographs: few bright pixels, so that curves and blurring change much."""
    generator = torch.Generator().manual_seed(2)
    noise = torch.rand(count, 3, 8, 8, generator=generator)
    return (255 * torch.nn.functional.interpolate(noise, 32, mode="bilinear") ** 2).byte()


def changed(images: Tensor, name: str = "idbh-weak", **uniforms: float) -> Tensor:
    """The augmented images, with some of the numbers set by column: ``u3=0.5``."""
    numbers = list(STILL)
    for column, value in uniforms.items():
        numbers[int(column[1:])] = value
    return augmentation(name)(images, torch.tensor([numbers] * len(images)))


def kind(name: str) -> float:
    return (KINDS.index(name) + 0.5) / len(KINDS)


def by_pillow(images: Tensor, change: Callable[[Image.Image], Image.Image]) -> Tensor:
    pictures = [Image.fromarray(each.permute(1, 2, 0).numpy()) for each in images]
    return torch.stack([torch.from_numpy(np.array(change(each))).permute(2, 0, 1) for each in pictures])


def test_without_a_change_the_image_stays_and_a_flip_is_a_flip() -> None:
    images = images_of(3)
    torch.testing.assert_close(changed(images), to_unit_range(images), atol=1e-6, rtol=0)
    torch.testing.assert_close(changed(images, u0=0.1), to_unit_range(images).flip(3), atol=1e-6, rtol=0)


@pytest.mark.parametrize("flipped", [False, True])
def test_crop_shift_moves_a_smaller_rectangle_onto_black(flipped: bool) -> None:
    images = images_of()
    # 10 pixels less in all, 5 of them columns (6 possible values of 11 lie below 0.5); the rest are 5 rows.
    numbers = {"u1": 0.999, "u2": 5.5 / 11, "u3": 2.5 / 6, "u4": 1.5 / 6, "u5": 4.5 / 6, "u6": 0.0}
    found = changed(images, u0=0.1 if flipped else 0.9, **numbers)
    source = to_unit_range(images.flip(3) if flipped else images)
    expected = torch.zeros(1, 3, 32, 32)
    expected[:, :, 4 : 4 + 27, 0:27] = source[:, :, 2 : 2 + 27, 1 : 1 + 27]
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("size", [0.0, 0.3, 0.999])
def test_colours_change_as_pillows(size: float) -> None:
    images = torch.cat([images_of(2), smooth_images()])
    changes: dict[str, tuple[float, type]] = {
        "saturation": (0.1, ImageEnhance.Color),
        "brightness": (0.5, ImageEnhance.Brightness),
        "contrast": (0.5, ImageEnhance.Contrast),
        "sharpness": (0.1, ImageEnhance.Sharpness),
    }
    for name, (low, enhancer) in changes.items():
        factor = low + (1.9 - low) * size
        expected = by_pillow(images, lambda picture, how=enhancer, by=factor: how(picture).enhance(by))
        found = changed(images, u7=kind(name), u8=size)
        # Pillow rounds grey values, blurred values and results to bytes.
        torch.testing.assert_close(255 * found, expected.float(), atol=2.1, rtol=0)


def test_curves_are_pillows() -> None:
    constant = torch.full((1, 3, 32, 32), 77, dtype=torch.uint8)
    images = torch.cat([images_of(2), smooth_images(), constant])
    stretched = by_pillow(images, ImageOps.autocontrast)
    torch.testing.assert_close(255 * changed(images, u7=kind("autocontrast")), stretched.float(), atol=1.0, rtol=0)
    assert torch.equal(
        (255 * changed(images, u7=kind("equalize"))).round().byte(), by_pillow(images, ImageOps.equalize)
    )


@pytest.mark.parametrize("size", [0.05, 0.4, 0.95])
@pytest.mark.parametrize("sign", [-1, 1])
def test_shapes_change_as_scipys_affine_maps_about_the_middle(size: float, sign: int) -> None:
    images = images_of()
    angle, slope = sign * math.radians(int(1 + 10 * size)), math.tan(sign * (0.05 + 0.1 * size))
    matrices = {
        "rotation": ([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]], 0.0),
        "shear": ([[1.0, slope], [0.0, 1.0]], 0.0),
        "shear along columns": ([[1.0, 0.0], [slope, 1.0]], 0.9),
    }
    for name, (matrix, axis) in matrices.items():
        found = changed(images, u7=kind(name.split()[0]), u8=size, u9=0.4 if sign < 0 else 0.6, u10=axis)[0]
        inverse = torch.tensor(matrix, dtype=torch.float64)
        offset = 15.5 - inverse @ torch.tensor([15.5, 15.5], dtype=torch.float64)
        for channel, result in zip(images[0], (255 * found).round().byte(), strict=True):
            # Shifted by 1, so that what lies outside differs from black pixels inside.
            expected = ndimage.affine_transform(
                channel.numpy().astype(int) + 1, inverse.numpy(), offset.numpy(), order=0, mode="grid-constant"
            )
            same = torch.from_numpy(np.maximum(expected - 1, 0)) == result
            assert same.float().mean() > 0.99, name  # positions halfway between two pixels may be rounded either way


def test_each_change_takes_an_eighth_of_the_images() -> None:
    images = smooth_images(1).repeat(8, 1, 1, 1)
    uniforms = torch.tensor([STILL] * 8)
    uniforms[:, 7] = torch.arange(8) / 8 + 0.01
    uniforms[:, 8] = 0.9
    together = augmentation("idbh-weak")(images, uniforms)
    apart = torch.cat([changed(images[:1], u7=kind(name), u8=0.9) for name in KINDS])
    assert torch.equal(together, apart)
    assert len(torch.unique(apart.flatten(1), dim=0)) == 8


def test_grey_images_of_one_channel_have_no_saturation() -> None:
    images = images_of(2, channels=1)
    torch.testing.assert_close(changed(images, u7=kind("saturation"), u8=0.1), to_unit_range(images), atol=1e-6, rtol=0)


def test_weak_erases_in_half_of_the_images_and_strong_in_all() -> None:
    images = images_of(1) // 2 + 100  # nowhere black
    assert changed(images, u11=0.51).min() > 0
    assert changed(images, "idbh-strong", u11=0.99).min() == 0
    # An area of 0.175 of 1,024 pixels and aspect 1: 13.4 pixels on each side; 19 rows and 19 columns remain.
    middle = math.log(1 / 0.3) / math.log(3.3 / 0.3)
    found = changed(images, u11=0.49, u12=0.5, u13=middle, u14=0.999, u15=0.0)
    expected = to_unit_range(images)
    expected[:, :, 19:, :13] = 0
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
    tall = changed(images, u11=0.0, u12=0.5, u13=0.999, u14=0.0, u15=0.0) == 0
    assert tall[0, 0].any(dim=1).sum() == 24
    assert tall[0, 0].any(dim=0).sum() == 7
