"""Level sets in closed form: points on them have the loss they promise."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmahal.density import CenterSpheres, PairSpheres, log_ball_volume, pair_contours
from maxmahal.density.contours import log_expm1
from maxmahal.losses.gsce import gsce_loss
from maxmahal.losses.mmc import mmc_loss

seeds = st.integers(0, 10_000)
dims = st.integers(2, 32)


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def draw_pair(seed: int, dim: int, kind: str = "scalar"):
    """Centers, precisions and biases of two classes."""
    draw = torch.Generator().manual_seed(seed)
    centers = torch.randn((2, dim), generator=draw, dtype=torch.float64)
    biases = torch.randn(2, generator=draw, dtype=torch.float64)
    low, gap = (0.2 + torch.rand(2, generator=draw, dtype=torch.float64)).tolist()
    order = [0, 1] if torch.rand((), generator=draw) < 0.5 else [1, 0]
    precisions = numbers(low, low) if kind == "equal" else numbers(low, low + gap)[order]
    return centers, precisions, biases


def directions(seed: int, count: int, dim: int) -> torch.Tensor:
    points = torch.randn((count, dim), generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)
    return points / torch.linalg.vector_norm(points, dim=1, keepdim=True)


def losses_of(points: torch.Tensor, pair) -> torch.Tensor:
    return gsce_loss(points, torch.zeros(len(points), dtype=torch.int64), *pair)


def loss_at(spheres: PairSpheres, *squares: float) -> torch.Tensor:
    """log(1 + e^((r² - B)(σ_k - σ_k̃))), Theorem 1's contours solved for the loss."""
    return torch.nn.functional.softplus((numbers(*squares) - spheres.offset) * spheres.gap, threshold=700)


@settings(deadline=None)
@given(seeds, dims, st.floats(0.1, 30.0))
def test_every_point_of_the_hypersphere_has_its_loss(seed: int, dim: int, squared: float) -> None:
    pair = draw_pair(seed, dim)
    spheres = pair_contours(*pair)
    assert isinstance(spheres, PairSpheres)
    loss = float(loss_at(spheres, squared))
    points = spheres.center + math.sqrt(squared) * directions(seed, 20, dim)
    assert losses_of(points, pair).tolist() == pytest.approx([loss] * 20, rel=1e-6, abs=1e-11)
    if loss > 1e-9:
        assert float(spheres.squared_radius(numbers(loss))) == pytest.approx(squared, rel=1e-6, abs=1e-6)


def test_equal_precisions_make_planes_between_which_no_volume_is_finite() -> None:
    assert pair_contours(*draw_pair(0, 3, "equal")) is None


@settings(deadline=None)
@given(seeds, dims, st.floats(1e-6, 50.0), st.floats(0.5, 4.0))
def test_mmcs_spheres(seed: int, dim: int, loss: float, scale: float) -> None:
    center = directions(seed, 1, dim)
    spheres = CenterSpheres(center[0], scale)
    points = spheres.center + float(spheres.squared_radius(numbers(loss)).sqrt()) * directions(seed + 1, 10, dim)
    found = scale * mmc_loss(points, torch.zeros(10, dtype=torch.int64), center)
    assert found.tolist() == pytest.approx([loss] * 10, rel=1e-6)


@settings(deadline=None)
@given(seeds, dims)
def test_c_star_is_the_least_or_the_largest_loss(seed: int, dim: int) -> None:
    pair = draw_pair(seed, dim)
    spheres = pair_contours(*pair)
    bound = float(loss_at(spheres, 0.0))
    expected = math.log1p(math.exp(spheres.offset * float(pair[1][1] - pair[1][0])))
    assert bound == pytest.approx(expected, rel=1e-9)
    assert float(losses_of(spheres.center[None], pair)) == pytest.approx(bound, rel=1e-7, abs=1e-11)
    found = losses_of(spheres.center + 3 * directions(seed, 200, dim) * torch.rand(200, 1), pair)
    below, above = spheres.squared_radius(numbers(bound * 0.9, bound * 1.1))
    if spheres.gap > 0:
        assert float(found.min()) >= bound * (1 - 1e-9) - 1e-11
        assert float(below) < 0 < float(above)
    else:
        assert float(found.max()) <= bound * (1 + 1e-9) + 1e-11
        assert float(above) < 0 < float(below)


@settings(deadline=None)
@given(seeds, dims)
def test_the_squared_radius_is_monotone_in_the_loss(seed: int, dim: int) -> None:
    spheres = pair_contours(*draw_pair(seed, dim))
    squares = spheres.squared_radius(torch.logspace(-8, 2, 60, dtype=torch.float64))
    assert bool((squares.diff() * spheres.gap > 0).all())
    assert bool((CenterSpheres(spheres.center).squared_radius(torch.logspace(-8, 2, 60)).diff() > 0).all())


@settings(deadline=None)
@given(seeds)
def test_the_squared_radius_grows_as_the_logarithm_of_a_vanishing_loss(seed: int) -> None:
    spheres = pair_contours(*draw_pair(seed, 3))
    tiny = numbers(1e-3, 1e-6, 1e-12)
    errors = (spheres.squared_radius(tiny) - (spheres.offset + tiny.log() / spheres.gap)).abs()
    assert bool((errors <= tiny / abs(spheres.gap) + 1e-9).all())
    small, smaller = spheres.squared_radius(numbers(1e-100, 1e-200))
    # 100 powers of ten more cost the same again: r² is linear in |log C|, with the slope 1/|σ_k - σ_k̃|.
    assert float(smaller - small) == pytest.approx(-100 * math.log(10) / spheres.gap, rel=1e-9)
    if spheres.gap < 0:
        ratio = float(spheres.squared_radius(numbers(1e-300))) / (300 * math.log(10))
        assert ratio == pytest.approx(1 / abs(spheres.gap), rel=0.05 + abs(spheres.offset * spheres.gap) / 300)


@pytest.mark.parametrize("dim", [2, 3, 4])
def test_the_room_between_two_contours_is_counted_by_uniform_points(dim: int) -> None:
    pair = draw_pair(dim, dim)
    contours = pair_contours(*pair)
    low, high = loss_at(contours, 0.8, 1.6).sort().values

    def inside(points: torch.Tensor) -> torch.Tensor:
        losses = losses_of(points, pair)
        return (losses >= low) & (losses <= high)

    radius, draw = math.sqrt(1.6), torch.Generator().manual_seed(dim)
    lengths = torch.rand((300_000, 1), generator=draw, dtype=torch.float64) ** (1 / dim)
    share = float(inside(contours.center + radius * lengths * directions(dim, 300_000, dim)).double().mean())
    error = math.sqrt((1 - share) / (300_000 * share))
    assert error < 0.02
    volume = share * math.exp(float(log_ball_volume(dim, numbers(radius))))
    assert volume / math.exp(float(contours.log_shell_volume(low, high))) == pytest.approx(1, abs=4 * error)


def test_tiny_and_huge_losses_do_not_lose_log_expm1() -> None:
    assert log_expm1(numbers(1e-300, 1e-9, 1.0, 800.0)).tolist() == pytest.approx(
        [math.log(1e-300), math.log(math.expm1(1e-9)), math.log(math.expm1(1.0)), 800.0], rel=1e-12
    )
