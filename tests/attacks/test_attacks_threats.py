"""The l∞ and l2 balls inside the bounds of pixels, and how their size is written."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats
from torch import Tensor

from maxmahal.attacks import L2, Linf, Threat, parse_epsilon
from maxmahal.errors import ArgumentError

SHAPE = (2, 1, 2, 3)
EPSILONS = st.one_of(st.integers(1, 255).map(lambda level: f"{level}/255"), st.floats(1e-9, 1.0))
NARROW = [(0.0, 1.0), (-1.0, 1.0), (-0.5, 0.5)]
WIDE = [(-2.5, 3.0), (0.0, 255.0), (100.0, 101.0)]
BOUNDS = st.sampled_from(NARROW + WIDE)
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def image_arrays(dtype: type, bounds: tuple[float, float] = (0.0, 1.0)) -> st.SearchStrategy[Tensor]:
    width = np.dtype(dtype).itemsize * 8
    return hnp.arrays(dtype, SHAPE, elements=st.floats(*bounds, width=width)).map(torch.tensor)


def anything(dtype: type) -> st.SearchStrategy[Tensor]:
    width = np.dtype(dtype).itemsize * 8
    elements = st.floats(-(2.0**50), 2.0**50, width=width) | st.floats(-1.5, 1.5, width=width)
    return hnp.arrays(dtype, SHAPE, elements=elements).map(torch.tensor)


def last_place(dtype: type, bounds: tuple[float, float]) -> float:
    """One unit in the last place of the largest pixel."""
    return float(np.finfo(dtype).eps) * max(map(abs, bounds))


@DTYPES
@settings(deadline=None, max_examples=50)
@given(data=st.data(), epsilon=EPSILONS, bounds=BOUNDS)
def test_linf_projects_to_the_nearest_allowed_image_and_stays_there(
    dtype: type, data: st.DataObject, epsilon: str | float, bounds: tuple[float, float]
) -> None:
    images, moved = data.draw(image_arrays(dtype, bounds)), data.draw(anything(dtype))
    threat = Linf(epsilon, bounds)
    projected = threat.project(images, moved)
    assert projected.dtype == images.dtype
    assert ((projected >= bounds[0]) & (projected <= bounds[1])).all()
    rounding = last_place(dtype, bounds)
    assert (projected.double() - images.double()).abs().max() <= threat.radius + rounding
    assert torch.equal(threat.project(images, projected), projected)
    low = np.maximum(images.double().numpy() - threat.radius, bounds[0])
    high = np.minimum(images.double().numpy() + threat.radius, bounds[1])
    np.testing.assert_allclose(projected.numpy(), np.clip(moved.double().numpy(), low, high), rtol=0, atol=rounding)


@DTYPES
@settings(deadline=None, max_examples=50)
@given(data=st.data(), epsilon=EPSILONS, bounds=st.sampled_from(NARROW))
def test_l2_never_leaves_the_ball_not_even_by_rounding(
    dtype: type, data: st.DataObject, epsilon: str | float, bounds: tuple[float, float]
) -> None:
    images, moved = data.draw(image_arrays(dtype, bounds)), data.draw(anything(dtype))
    threat = L2(epsilon, bounds)
    projected = threat.project(images, moved)
    assert projected.dtype == images.dtype
    assert ((projected >= bounds[0]) & (projected <= bounds[1])).all()
    lengths = (projected.double() - images.double()).flatten(1).norm(dim=1)
    assert (lengths <= threat.radius).all()
    rounding = 4 * last_place(dtype, bounds)
    torch.testing.assert_close(threat.project(images, projected), projected, rtol=0, atol=rounding)


@pytest.mark.parametrize("bounds", WIDE, ids=str)
def test_l2_stays_inside_where_pixels_are_larger_than_one(bounds: tuple[float, float]) -> None:
    images = torch.full((200, 1, 4, 4), bounds[1] - 0.4)
    moved = images + torch.randn(images.shape, generator=torch.Generator().manual_seed(0))
    threat = L2("1/255", bounds)
    assert (threat.distances(images.double(), threat.project(images, moved).double()) <= threat.radius).all()


@settings(deadline=None, max_examples=50)
@given(data=st.data(), epsilon=st.floats(0.01, 3.0))
def test_l2_projects_along_the_ray_and_then_to_the_bounds(data: st.DataObject, epsilon: float) -> None:
    images, moved = (data.draw(image_arrays(np.float64)) for _ in range(2))
    change = (moved - images).numpy()
    lengths = np.linalg.norm(change.reshape(2, -1), axis=1).reshape(2, 1, 1, 1)
    expected = np.clip(images.numpy() + change * np.minimum(1, epsilon / np.maximum(lengths, 1e-30)), 0, 1)
    # It stays a hair inside the ball: a millionth, and float32's rounding, of the way.
    np.testing.assert_allclose(L2(epsilon).project(images, moved).numpy(), expected, rtol=0, atol=5e-6)


@settings(deadline=None, max_examples=50)
@given(images=image_arrays(np.float32), epsilon=EPSILONS)
def test_an_image_is_allowed_to_stay_to_the_last_bit(images: Tensor, epsilon: str | float) -> None:
    assert torch.equal(Linf(epsilon).project(images, images), images)
    assert torch.equal(L2(epsilon).project(images, images), images)


@settings(deadline=None, max_examples=30)
@given(data=st.data(), kind=st.sampled_from([Linf, L2]), epsilon=EPSILONS, bounds=BOUNDS, key=st.integers(0, 2**63 - 1))
def test_random_starts_are_allowed(
    data: st.DataObject, kind: type, epsilon: str | float, bounds: tuple[float, float], key: int
) -> None:
    images, threat = data.draw(image_arrays(np.float32, bounds)), kind(epsilon, bounds)
    start = threat.random_start(images, torch.tensor([7, -3]), "start", key)
    assert start.dtype == images.dtype
    assert ((start >= bounds[0]) & (start <= bounds[1])).all()
    distances = threat.distances(images.double(), start.double())
    slack = last_place(np.float32, bounds) if kind is Linf else 0.0
    assert (distances <= threat.radius + slack).all()
    assert torch.equal(threat.project(images, start), start) or kind is L2


def test_the_linf_random_start_is_uniform() -> None:
    images, ids = torch.full((500, 1, 4, 4), 0.5), torch.arange(500)
    start = Linf("8/255").random_start(images, ids, "start", 0)
    offsets = (start - images).flatten() / (8 / 255)
    assert offsets.abs().max() <= 1 + 1e-5
    assert offsets.abs().max() > 0.999
    assert float(offsets.mean()) == pytest.approx(0, abs=5 / math.sqrt(3 * len(offsets)))
    assert stats.kstest(offsets.numpy(), stats.uniform(-1, 2).cdf).pvalue > 1e-3


def test_the_l2_random_start_is_uniform_in_the_ball() -> None:
    """In n dimensions (r/ε)ⁿ is then uniform, and the direction is that of a normal vector."""
    images, ids = torch.full((4000, 1, 1, 3), 0.5, dtype=torch.float64), torch.arange(4000)
    offsets = (L2(0.25).random_start(images, ids, "start", 0) - images).flatten(1) / 0.25
    lengths = offsets.norm(dim=1)
    assert stats.kstest((lengths**3).numpy(), "uniform").pvalue > 1e-3
    # Each coordinate of a direction in three dimensions is itself uniform (Archimedes).
    for axis in range(3):
        assert stats.kstest((offsets[:, axis] / lengths).numpy(), stats.uniform(-1, 2).cdf).pvalue > 1e-3
    moments = offsets.T @ offsets / 4000
    torch.testing.assert_close(moments, torch.eye(3, dtype=torch.float64) / 5, rtol=0, atol=0.02)


@pytest.mark.parametrize("threat", [Linf(0.25), L2(0.25)], ids=str)
def test_a_random_start_belongs_to_the_sample_the_key_and_the_restart(threat: Threat) -> None:
    images, ids = torch.full((6, 1, 2, 2), 0.5), torch.arange(6)
    start = threat.random_start(images, ids, "start", 0)
    assert torch.equal(threat.random_start(images.flip(0), ids.flip(0), "start", 0).flip(0), start)
    assert torch.equal(threat.random_start(images[3:4], ids[3:4], "start", 0)[0], start[3])
    assert len({tuple(row.tolist()) for row in start.flatten(1)}) == 6
    assert not torch.equal(threat.random_start(images, ids, "start", 1), start)


def test_the_random_start_stays_in_the_unit_range() -> None:
    ids = torch.arange(50)
    for value in (0.0, 1.0):
        images = torch.full((50, 3, 4, 4), value)
        for threat in (Linf(0.25), L2(0.25)):
            start = threat.random_start(images, ids, 0)
            assert ((start >= 0) & (start <= 1)).all()
            assert (start != value).float().mean() == pytest.approx(0.5, abs=0.1)


def test_a_linf_step_goes_against_the_sign_of_the_gradient() -> None:
    gradient = torch.tensor([[[[2.0, -0.1, 0.0]]]])
    moved = Linf(0.1).descend(torch.full((1, 1, 1, 3), 0.5), gradient, 0.25)
    torch.testing.assert_close(moved, torch.tensor([[[[0.25, 0.75, 0.5]]]]))


def test_an_l2_step_has_the_step_sizes_length_against_the_gradient() -> None:
    gradient = torch.tensor([[[[3.0, -4.0, 0.0]]], [[[0.0, 0.0, 0.0]]], [[[0.0, 0.0, 1e-12]]]])
    moved = L2(0.1).descend(torch.full((3, 1, 1, 3), 0.5), gradient, 0.25)
    expected = torch.tensor([[[[0.35, 0.7, 0.5]]], [[[0.5, 0.5, 0.5]]], [[[0.5, 0.5, 0.25]]]])
    torch.testing.assert_close(moved, expected)


@pytest.mark.parametrize("threat", [Linf(0.1), L2(0.1)], ids=str)
def test_each_sample_may_have_its_own_step_size(threat: Threat) -> None:
    start, gradient = torch.full((2, 1, 1, 3), 0.5), torch.tensor([[[[3.0, -4.0, 0.0]]], [[[1.0, 1.0, 1.0]]]])
    together = threat.descend(start, gradient, torch.tensor([0.25, 0.01]))
    for row, size in enumerate((0.25, 0.01)):
        alone = threat.descend(start[row : row + 1], gradient[row : row + 1], size)
        torch.testing.assert_close(together[row : row + 1], alone)


def test_distances_are_norms() -> None:
    images = torch.zeros(2, 1, 1, 2)
    moved = torch.tensor([[[[3.0, -4.0]]], [[[0.0, 0.5]]]])
    assert Linf(0.1).distances(images, moved).tolist() == [4.0, 0.5]
    assert L2(0.1).distances(images, moved).tolist() == [5.0, 0.5]


@pytest.mark.parametrize(("text", "value"), [("8/255", 8 / 255), ("0.03", 0.03), (0.5, 0.5), (1.0, 1.0), ("1", 1.0)])
def test_an_epsilon_is_a_number_or_a_fraction(text: str | float, value: float) -> None:
    assert parse_epsilon(text) == value
    for kind in (Linf, L2):
        assert kind(text).radius == value
        assert kind(text).epsilon == text
        assert str(kind(text)) == f"{kind.__name__} {text if isinstance(text, str) else f'{text:g}'}"
        assert isinstance(kind(text), Threat)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("epsilon", [8, 8.0, "8"])
def test_a_level_of_255_is_refused_with_the_fraction_it_means(epsilon: str | float) -> None:
    message = r"epsilon must lie in \(0, 1\] because images do; got 8\. Did you mean 8/255\?"
    with pytest.raises(ArgumentError, match=message):
        parse_epsilon(epsilon)
    with pytest.raises(ValueError, match=message):
        Linf(epsilon)
    assert Linf(epsilon, bounds=(0.0, 255.0)).radius == 8
    assert L2(epsilon).radius == 8  # an image of many pixels can move as far as that


@pytest.mark.parametrize("epsilon", [0.0, -0.1, math.nan, -math.inf, "0", "-8/255", "0/255"])
def test_epsilons_out_of_range_are_refused(epsilon: str | float) -> None:
    as_a_number = f"{float(Fraction(epsilon)) if isinstance(epsilon, str) else epsilon:g}"
    with pytest.raises(
        ArgumentError, match=rf"epsilon must lie in \(0, 1\] because images do; got ({epsilon}|{as_a_number})\.$"
    ):
        Linf(epsilon)
    with pytest.raises(ArgumentError, match=rf"epsilon must be positive and finite; got ({epsilon}|{as_a_number})\.$"):
        L2(epsilon)
    with pytest.raises(ArgumentError, match="epsilon must be positive and finite; got inf"):
        L2(math.inf)


@pytest.mark.parametrize("epsilon", ["abc", "1/0", "", "8/", "8/255/2", "nan", "inf"])
def test_text_that_is_no_number_is_refused(epsilon: str) -> None:
    for build in (parse_epsilon, Linf, L2):
        with pytest.raises(ArgumentError, match=rf"a number or a fraction such as 8/255; got '{epsilon}'"):
            build(epsilon)


@pytest.mark.parametrize("bounds", [(1.0, 0.0), (0.5, 0.5), (0.0, math.inf), (math.nan, 1.0)])
def test_bounds_that_hold_nothing_are_refused(bounds: tuple[float, float]) -> None:
    for kind in (Linf, L2):
        with pytest.raises(ArgumentError, match="bounds must be two finite numbers, the smaller first; got "):
            kind(0.1, bounds)
