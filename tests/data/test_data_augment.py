"""Augmentations against slow, obvious versions of themselves."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage
from torch import Tensor

from maxmahal.data import augmentation, augmentations, to_unit_range
from maxmahal.errors import ArgumentError

SIMPLE = ("none", "crop", "crop-flip", "shift", "shift-flip")
NAMES = (*SIMPLE, "idbh-weak", "idbh-strong")


def bytes_and_uniforms(
    seed: int, count: int, channels: int, height: int, width: int, columns: int = 3
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (count, channels, height, width), dtype=torch.uint8, generator=generator)
    return images, torch.rand(count, columns, generator=generator)


def naive_crop(image: Tensor, uniforms: Tensor, flip: bool) -> Tensor:
    channels, height, width = image.shape
    padded = torch.zeros(channels, height + 8, width + 8, dtype=torch.uint8)
    padded[:, 4 : 4 + height, 4 : 4 + width] = image
    top, left = int(uniforms[0] * 9), int(uniforms[1] * 9)
    cut = padded[:, top : top + height, left : left + width]
    return cut.flip(2) if flip and uniforms[2] < 0.5 else cut


def test_the_names_are_those_of_the_settings() -> None:
    assert set(augmentations()) == set(NAMES)


@pytest.mark.parametrize("name", SIMPLE)
def test_three_halves_leave_the_images_as_they_are(name: str) -> None:
    images, _ = bytes_and_uniforms(0, 5, 3, 32, 30)
    assert torch.equal(augmentation(name)(images, torch.full((5, 3), 0.5)), to_unit_range(images))


@pytest.mark.parametrize("name", ["crop", "crop-flip"])
def test_crop_equals_slicing_each_padded_image(name: str) -> None:
    images, uniforms = bytes_and_uniforms(1, 40, 3, 12, 9)
    uniforms[0], uniforms[1] = 0.0, 1 - 2**-24  # the two outermost corners
    expected = torch.stack([naive_crop(*pair, name == "crop-flip") for pair in zip(images, uniforms, strict=True)])
    assert torch.equal(augmentation(name)(images, uniforms), to_unit_range(expected))


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize(("down", "right"), [(0, 0), (2, 0), (-4, 1), (3, -2)])
def test_a_shift_by_whole_pixels_is_a_roll_with_repeated_edges(down: int, right: int, flip: bool) -> None:
    images, _ = bytes_and_uniforms(2, 2, 3, 40, 40)  # a tenth of 40 is 4 pixels, so these shifts are exact in binary
    uniforms = torch.tensor([[(down / 4 + 1) / 2, (right / 4 + 1) / 2, 0.0 if flip else 0.9]]).expand(2, 3)
    rows = (torch.arange(40) - down).clamp(0, 39)
    columns = (torch.arange(40) - right).clamp(0, 39)
    expected = to_unit_range(images[:, :, rows][:, :, :, columns])
    assert torch.equal(augmentation("shift-flip")(images, uniforms), expected.flip(3) if flip else expected)
    assert torch.equal(augmentation("shift")(images, uniforms), expected)


def test_a_fractional_shift_equals_scipys_linear_interpolation() -> None:
    images, uniforms = bytes_and_uniforms(3, 12, 3, 32, 20)
    shifted = augmentation("shift")(images, uniforms)
    for image, (vertical, horizontal, _), result in zip(to_unit_range(images), uniforms.tolist(), shifted, strict=True):
        move = (0, (2 * vertical - 1) * 3.2, (2 * horizontal - 1) * 2.0)
        expected = ndimage.shift(image.double().numpy(), move, order=1, mode="nearest")
        torch.testing.assert_close(result.double(), torch.from_numpy(expected), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**31), count=st.integers(1, 9), channels=st.sampled_from([1, 3]),
    height=st.integers(1, 13), width=st.integers(1, 13), pick=st.integers(0, 8),
)  # fmt: skip
def test_values_stay_in_range_and_a_sample_does_not_see_its_batch(
    name: str, seed: int, count: int, channels: int, height: int, width: int, pick: int
) -> None:
    images, uniforms = bytes_and_uniforms(seed, count, channels, height, width, augmentation(name).columns)
    images[0] = images[0] // 128 * 255  # the extremes, where rounding could leave the range
    result = augmentation(name)(images, uniforms)
    assert result.dtype == torch.float32
    assert result.shape == images.shape
    assert result.min() >= 0
    assert result.max() <= 1
    chosen = pick % count
    assert torch.equal(
        augmentation(name)(images[chosen : chosen + 1], uniforms[chosen : chosen + 1])[0], result[chosen]
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_inputs_are_left_alone(name: str) -> None:
    images, uniforms = bytes_and_uniforms(4, 3, 3, 8, 8, augmentation(name).columns)
    before = images.clone(), uniforms.clone()
    augmentation(name)(images, uniforms)
    assert torch.equal(images, before[0])
    assert torch.equal(uniforms, before[1])


def test_half_of_the_images_are_mirrored() -> None:
    images, uniforms = bytes_and_uniforms(5, 400, 1, 8, 8)
    uniforms[:, :2] = 0.5
    mirrored = (augmentation("crop-flip")(images, uniforms) != to_unit_range(images)).flatten(1).any(1)
    assert torch.equal(mirrored, uniforms[:, 2] < 0.5)
    assert 150 < mirrored.sum() < 250


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ArgumentError, match="did you mean 'crop-flip'"):
        augmentation("cropflip")


@pytest.mark.parametrize("name", NAMES)
def test_uniforms_on_another_device_are_refused(name: str) -> None:
    images, uniforms = bytes_and_uniforms(6, 2, 1, 8, 8, augmentation(name).columns)
    function: Callable[[Tensor, Tensor], Tensor] = augmentation(name)
    with pytest.raises(ArgumentError, match="meta and cpu"):
        function(images, uniforms.to("meta"))
