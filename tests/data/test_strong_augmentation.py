"""The strong augmentation against slow, obvious versions of its parts."""

import math

import pytest
import torch
from scipy import ndimage
from torch import Tensor

from maxmahal.data import augmentation, to_unit_range

STILL = [0.9, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.9, 0.0, 0.0, 0.0, 0.0]  # nothing flipped, cropped or erased
KINDS = {"none": 0, "brightness": 1, "contrast": 2, "saturation": 3, "rotation": 4, "rows": 5, "columns": 6}


def images_of(count: int = 1, side: int = 32) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8, generator=generator)


def changed(images: Tensor, **uniforms: float) -> Tensor:
    """The augmented images, with some of the numbers set by column: ``u3=0.5``."""
    numbers = list(STILL)
    for name, value in uniforms.items():
        numbers[int(name[1:])] = value
    return augmentation("strong")(images, torch.tensor([numbers] * len(images)))


def kind(name: str) -> float:
    return (KINDS[name] + 0.5) / len(KINDS)


def test_without_a_change_the_image_stays_and_a_flip_is_a_flip() -> None:
    images = images_of(3)
    assert torch.equal(changed(images), to_unit_range(images))
    assert torch.equal(changed(images, u0=0.1), to_unit_range(images).flip(3))


def test_crop_shift_moves_a_smaller_rectangle_onto_black() -> None:
    images = images_of()
    # 11 pixels less in all, 5 of them columns (6 possible values of 12 lie below 0.49); the rest are 6 rows.
    found = changed(images, u1=0.999, u2=5.5 / 12, u3=2.5 / 7, u4=1.5 / 6, u5=4.5 / 7, u6=0.0)
    expected = torch.zeros(1, 3, 32, 32)
    expected[:, :, 4 : 4 + 26, 0:27] = to_unit_range(images)[:, :, 2 : 2 + 26, 1 : 1 + 27]
    assert torch.equal(found, expected)


@pytest.mark.parametrize("size", [0.0, 0.25, 0.999])
def test_colours_change_about_black_the_mean_and_grey(size: float) -> None:
    images = images_of()
    exact, factor = images.double() / 255, 0.5 + size
    pivots = {"brightness": 0.0, "contrast": exact.mean(), "saturation": exact.mean(dim=1, keepdim=True)}
    for name, pivot in pivots.items():
        expected = (pivot + factor * (exact - pivot)).clamp(0, 1)
        torch.testing.assert_close(changed(images, u7=kind(name), u8=size).double(), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("size", [0.1, 0.8])
def test_shapes_change_as_scipys_affine_maps_about_the_middle(size: float) -> None:
    images, amount = images_of(), 2 * size - 1
    angle = math.radians(15) * amount
    matrices = {
        "rotation": [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]],
        "rows": [[1.0, 0.2 * amount], [0.0, 1.0]],
        "columns": [[1.0, 0.0], [0.2 * amount, 1.0]],
    }
    for name, matrix in matrices.items():
        found = changed(images, u7=kind(name), u8=size)[0]
        inverse = torch.tensor(matrix, dtype=torch.float64)
        offset = 15.5 - inverse @ torch.tensor([15.5, 15.5], dtype=torch.float64)
        for channel, result in zip(images[0].double() / 255, found.double(), strict=True):
            expected = ndimage.affine_transform(
                channel.numpy(), inverse.numpy(), offset.numpy(), order=1, mode="grid-constant"
            )
            torch.testing.assert_close(result, torch.from_numpy(expected), atol=1e-4, rtol=0)


def test_half_of_the_images_lose_a_rectangle_of_the_given_area_and_aspect() -> None:
    images = images_of(1) // 2 + 100  # nowhere black
    assert changed(images, u9=0.51).min() > 0
    # An area of 0.175 of 1,024 pixels and aspect 1: 13.4 pixels on each side; 19 rows and 19 columns remain.
    found = changed(images, u9=0.49, u10=0.5, u11=0.5, u12=0.999, u13=0.0)
    expected = to_unit_range(images)
    expected[:, :, 19:, :13] = 0
    assert torch.equal(found, expected)
    tall = changed(images, u9=0.0, u10=0.5, u11=0.999, u12=0.0, u13=0.0) == 0
    assert tall[0, 0].any(dim=1).sum() == 24
    assert tall[0, 0].any(dim=0).sum() == 7
