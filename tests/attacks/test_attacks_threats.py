"""The l∞ ball inside [0, 1], and how its size is written."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor

from maxmahal.attacks import Linf, parse_epsilon
from maxmahal.errors import ArgumentError

SHAPE = (2, 1, 2, 3)
EPSILONS = st.one_of(st.integers(1, 255).map(lambda level: f"{level}/255"), st.floats(1e-6, 1.0))


def image_arrays(dtype: type) -> st.SearchStrategy[Tensor]:
    width = np.dtype(dtype).itemsize * 8
    return hnp.arrays(dtype, SHAPE, elements=st.floats(0, 1, width=width)).map(torch.tensor)


def anything(dtype: type) -> st.SearchStrategy[Tensor]:
    width = np.dtype(dtype).itemsize * 8
    elements = st.floats(-(2.0**100), 2.0**100, width=width) | st.floats(-1.5, 1.5, width=width)
    return hnp.arrays(dtype, SHAPE, elements=elements).map(torch.tensor)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(deadline=None)
@given(data=st.data(), epsilon=EPSILONS)
def test_projected_images_are_allowed_nearest_and_stay(dtype: type, data: st.DataObject, epsilon: str | float) -> None:
    images, moved = data.draw(image_arrays(dtype)), data.draw(anything(dtype))
    threat = Linf(epsilon)
    projected = threat.project(images, moved)
    assert projected.dtype == images.dtype
    assert ((projected >= 0) & (projected <= 1)).all()
    rounding = np.finfo(dtype).eps  # one unit in the last place of numbers up to 1
    assert (projected.double() - images.double()).abs().max() <= threat.radius + rounding
    assert torch.equal(threat.project(images, projected), projected)
    low = np.maximum(images.double().numpy() - threat.radius, 0)
    high = np.minimum(images.double().numpy() + threat.radius, 1)
    np.testing.assert_allclose(projected.numpy(), np.clip(moved.double().numpy(), low, high), rtol=0, atol=rounding)


@settings(deadline=None)
@given(images=image_arrays(np.float32), epsilon=EPSILONS)
def test_an_allowed_image_is_left_to_the_last_bit(images: Tensor, epsilon: str | float) -> None:
    assert torch.equal(Linf(epsilon).project(images, images), images)


def test_the_random_start_is_uniform_in_the_ball() -> None:
    images, ids = torch.full((500, 1, 4, 4), 0.5), torch.arange(500)
    start = Linf("8/255").random_start(images, ids, "start", 0)
    offsets = (start - images).flatten() / (8 / 255)
    assert offsets.abs().max() <= 1 + 1e-5
    assert offsets.abs().max() > 0.999
    assert float(offsets.mean()) == pytest.approx(0, abs=5 / math.sqrt(3 * len(offsets)))
    assert float(offsets.var()) == pytest.approx(1 / 3, rel=0.05)
    bins = torch.histc(offsets, 10, -1, 1)
    assert ((bins - 800).abs() < 5 * math.sqrt(800)).all()


def test_the_random_start_stays_in_the_unit_range() -> None:
    ids = torch.arange(50)
    for value in (0.0, 1.0):
        start = Linf(0.25).random_start(torch.full((50, 3, 4, 4), value), ids, 0)
        assert ((start >= 0) & (start <= 1)).all()
        assert (start != value).float().mean() == pytest.approx(0.5, abs=0.1)


def test_a_step_goes_against_the_sign_of_the_gradient() -> None:
    gradient = torch.tensor([[[[2.0, -0.1, 0.0]]]])
    moved = Linf(0.1).descend(torch.full((1, 1, 1, 3), 0.5), gradient, 0.25)
    torch.testing.assert_close(moved, torch.tensor([[[[0.25, 0.75, 0.5]]]]))


@pytest.mark.parametrize(("text", "value"), [("8/255", 8 / 255), ("0.03", 0.03), (0.5, 0.5), (1.0, 1.0), ("1", 1.0)])
def test_an_epsilon_is_a_number_or_a_fraction(text: str | float, value: float) -> None:
    assert parse_epsilon(text) == value
    assert Linf(text).radius == value
    assert Linf(text).epsilon == text


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("epsilon", [8, 8.0, "8"])
def test_a_level_of_255_is_refused_with_the_fraction_it_means(epsilon: str | float) -> None:
    message = r"epsilon must lie in \(0, 1\] because images do; got 8\. Did you mean 8/255\?"
    with pytest.raises(ArgumentError, match=message):
        parse_epsilon(epsilon)
    with pytest.raises(ValueError, match=message):
        Linf(epsilon)


@pytest.mark.parametrize("epsilon", [0.0, -0.1, math.nan, -math.inf, "0", "-8/255", "0/255"])
def test_epsilons_out_of_range_are_refused(epsilon: str | float) -> None:
    as_a_number = f"{float(Fraction(epsilon)) if isinstance(epsilon, str) else epsilon:g}"
    message = rf"epsilon must lie in \(0, 1\] because images do; got ({epsilon}|{as_a_number})\.$"
    with pytest.raises(ArgumentError, match=message):
        Linf(epsilon)


@pytest.mark.parametrize("epsilon", ["abc", "1/0", "", "8/", "8/255/2", "nan", "inf"])
def test_text_that_is_no_number_is_refused(epsilon: str) -> None:
    with pytest.raises(ArgumentError, match=rf"a number or a fraction such as 8/255; got '{epsilon}'"):
        parse_epsilon(epsilon)
