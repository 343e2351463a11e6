"""Noise by its statistics, rotation by quarter turns, half turns and a ramp that bilinear sampling keeps exact."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from maxmahal.attacks import gaussian_noise, random_rotation, rotate

IMAGES = torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(0))
IDS = torch.tensor([7, -3, 2**40, 0, 1])


def angles(*degrees: float) -> Tensor:
    return torch.tensor(degrees)


@pytest.mark.parametrize("std", [0.05, 0.3])
def test_noise_has_its_standard_deviation(std: float) -> None:
    images = torch.full((200, 1, 10, 10), 0.5)
    noise = (gaussian_noise(images, std=std, seed=0, sample_ids=torch.arange(200), clip=False) - images).flatten()
    count = len(noise)
    assert float(noise.std()) == pytest.approx(std, rel=5 / math.sqrt(2 * count))
    assert float(noise.mean()) == pytest.approx(0, abs=5 * std / math.sqrt(count))


def test_noise_is_clipped_unless_asked_otherwise() -> None:
    free = gaussian_noise(IMAGES, std=0.5, seed=0, sample_ids=IDS, clip=False)
    assert ((free < 0) | (free > 1)).any()
    assert torch.equal(gaussian_noise(IMAGES, std=0.5, seed=0, sample_ids=IDS), free.clamp(0, 1))
    assert torch.equal(gaussian_noise(IMAGES, std=0.0, seed=0, sample_ids=IDS), IMAGES)


def test_noise_belongs_to_the_sample_and_the_seed() -> None:
    together = gaussian_noise(IMAGES, std=0.1, seed=0, sample_ids=IDS)
    assert torch.equal(gaussian_noise(IMAGES.flip(0), std=0.1, seed=0, sample_ids=IDS.flip(0)).flip(0), together)
    for i in range(5):
        assert torch.equal(gaussian_noise(IMAGES[i, None], std=0.1, seed=0, sample_ids=IDS[i, None])[0], together[i])
    assert not torch.equal(gaussian_noise(IMAGES, std=0.1, seed=1, sample_ids=IDS), together)
    twins = gaussian_noise(IMAGES[:1].expand(2, -1, -1, -1), std=0.1, seed=0, sample_ids=torch.tensor([1, 2]))
    assert not torch.equal(twins[0], twins[1])


@pytest.mark.parametrize("shape", [(8, 8), (7, 7), (6, 9), (1, 5)])
def test_a_turn_by_nothing_or_by_360_degrees_is_the_identity(shape: tuple[int, int]) -> None:
    images = torch.rand(2, 3, *shape, generator=torch.Generator().manual_seed(1))
    for degrees in (0.0, 360.0):
        torch.testing.assert_close(rotate(images, angles(degrees, degrees)), images, rtol=0, atol=1e-4)


@pytest.mark.parametrize("size", [7, 8])
def test_quarter_turns_go_counter_clockwise(size: int) -> None:
    images = torch.rand(1, 3, size, size, generator=torch.Generator().manual_seed(2))
    for turns in (1, 2, 3, -1):
        turned = rotate(images, angles(90.0 * turns))
        torch.testing.assert_close(turned, torch.rot90(images, turns, dims=(2, 3)), rtol=0, atol=1e-4)


def test_counter_clockwise_means_the_right_edge_comes_to_the_top() -> None:
    image = torch.zeros(1, 1, 5, 5)
    image[0, 0, 2, 4] = 1.0
    assert rotate(image, angles(90.0))[0, 0].argmax().item() == 2  # row 0, column 2


@pytest.mark.parametrize("shape", [(6, 10), (9, 4), (8, 8)])
def test_a_half_turn_flips_both_axes_whatever_the_shape(shape: tuple[int, int]) -> None:
    images = torch.rand(2, 1, *shape, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(rotate(images, angles(180.0, -180.0)), images.flip(2, 3), rtol=0, atol=1e-4)


@settings(deadline=None, max_examples=50)
@given(
    degrees=st.floats(-180, 180),
    height=st.integers(6, 24),
    width=st.integers(6, 24),
    slopes=st.tuples(st.floats(-1, 1), st.floats(-1, 1)),
)
def test_a_ramp_turns_without_shear(degrees: float, height: int, width: int, slopes: tuple[float, float]) -> None:
    """Bilinear sampling is exact on a ramp, so inside the image its turned values are known in closed form."""
    x = np.arange(width) - (width - 1) / 2
    y = np.arange(height)[:, None] - (height - 1) / 2
    image = torch.tensor(slopes[0] * x + slopes[1] * y)[None, None]
    turned = rotate(image, angles(degrees))[0, 0].numpy()
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    from_x, from_y = cos * x - sin * y, sin * x + cos * y  # rows count downwards
    inside = (np.abs(from_x) <= (width - 1) / 2) & (np.abs(from_y) <= (height - 1) / 2)
    expected = slopes[0] * from_x + slopes[1] * from_y
    np.testing.assert_allclose(turned[inside], expected[inside], rtol=0, atol=1e-4)


def test_each_image_has_its_own_angle_and_corners_take_the_edges_values() -> None:
    turned = rotate(IMAGES, angles(0.0, 10.0, -25.0, 90.0, 30.0))
    for i, degrees in enumerate((0.0, 10.0, -25.0, 90.0, 30.0)):
        torch.testing.assert_close(turned[i], rotate(IMAGES[i, None], angles(degrees))[0])
    torch.testing.assert_close(rotate(torch.full((1, 1, 6, 9), 0.4), angles(33.0)), torch.full((1, 1, 6, 9), 0.4))


@pytest.mark.parametrize("size", [(7, 9), (28, 28), (33, 33)])
def test_a_turned_image_stays_in_its_range_to_the_last_bit(size: tuple[int, int]) -> None:
    images = (torch.rand(200, 2, *size, generator=torch.Generator().manual_seed(4)) > 0.3).float()
    degrees = torch.linspace(-40, 40, 200)
    for scale, shift in ((1.0, 0.0), (0.7, 0.1)):
        turned = rotate(scale * images + shift, degrees)
        assert turned.min() >= shift
        assert turned.max() <= torch.tensor(scale) + shift


def test_random_angles_are_uniform_and_belong_to_the_sample() -> None:
    # On the ramp x the turned image has x-slope cos and y-slope -sin, from which the angle can be read.
    size, count = 9, 2000
    ramp = (torch.arange(size, dtype=torch.float64) - 4).expand(count, 1, size, size)
    ids = torch.arange(count)
    turned = random_rotation(ramp, max_degrees=30.0, seed=0, sample_ids=ids)[:, 0]
    measured = torch.rad2deg(torch.atan2(turned[:, 3, 4] - turned[:, 5, 4], turned[:, 4, 5] - turned[:, 4, 3]))
    assert measured.abs().max() <= 30
    assert measured.max() > 29
    assert measured.min() < -29
    assert float(measured.mean()) == pytest.approx(0, abs=5 * 30 / math.sqrt(3 * count))
    assert float(measured.var()) == pytest.approx(30**2 / 3, rel=0.1)
    torch.testing.assert_close(rotate(ramp[:9], measured[:9])[:, 0], turned[:9], rtol=0, atol=1e-4)
    few = random_rotation(ramp[[5, 3]], max_degrees=30.0, seed=0, sample_ids=ids[[5, 3]])[:, 0]
    assert torch.equal(few, turned[[5, 3]])
    assert not torch.equal(random_rotation(ramp[:3], max_degrees=30.0, seed=1, sample_ids=ids[:3])[:, 0], turned[:3])
