"""Volumes against closed forms, other libraries, and uniform points."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from maxmahal.density import log_ball_volume, log_ellipsoid_volume, log_shell_volume, log_sphere_area, region_volume
from maxmahal.density.volumes import (
    log_squared_radius_density,
    points_in_shell,
    squared_radius_quantiles,
    squared_radius_share,
)
from maxmahal.errors import ArgumentError

dims = st.integers(1, 512)
radii = st.floats(1e-3, 1e3)


def number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


@pytest.mark.parametrize(
    ("dim", "volume", "area"),
    [
        (1, 2 * 3.0, 2.0),
        (2, math.pi * 9, 2 * math.pi * 3),
        (3, 4 / 3 * math.pi * 27, 4 * math.pi * 9),
        (4, math.pi**2 / 2 * 81, 2 * math.pi**2 * 27),
    ],
)
def test_what_school_teaches(dim: int, volume: float, area: float) -> None:
    assert float(log_ball_volume(dim, number(3.0))) == pytest.approx(math.log(volume), abs=1e-12)
    assert float(log_sphere_area(dim, number(3.0))) == pytest.approx(math.log(area), abs=1e-12)


@pytest.mark.parametrize("dim", [2, 3, 4])
def test_a_ball_and_a_shell_hold_their_share_of_a_cubes_uniform_points(dim: int) -> None:
    points = np.random.default_rng(dim).uniform(-1, 1, (400_000, dim))
    lengths = np.linalg.norm(points, axis=1)
    for inner, outer in ((0.0, 1.0), (0.5, 0.8)):
        share = float(np.mean((lengths >= inner) & (lengths <= outer)))
        volume = math.exp(float(log_shell_volume(dim, number(inner), number(outer))))
        assert share * 2**dim == pytest.approx(volume, abs=4 * 2**dim * math.sqrt(share * (1 - share) / len(points)))


@pytest.mark.parametrize("dim", [2, 3, 4])
def test_an_ellipsoid_holds_its_share_of_a_balls_uniform_points(dim: int) -> None:
    draw = torch.Generator().manual_seed(dim)
    root = torch.randn((dim, dim), generator=draw, dtype=torch.float64)
    shape = root @ root.T + torch.eye(dim)
    center = torch.randn(dim, generator=draw, dtype=torch.float64)

    def inside(points: torch.Tensor) -> torch.Tensor:
        return torch.einsum("nd,de,ne->n", points - center, shape, points - center) <= 0.7

    log_volume, error = region_volume(inside, center, math.sqrt(0.7), draws=200_000)
    expected = float(log_ellipsoid_volume(shape, number(0.7)))
    assert error < 0.03
    assert math.exp(log_volume - expected) == pytest.approx(1, abs=4 * error)


@pytest.mark.parametrize("dim", [2, 3, 4, 64])
def test_points_fill_a_shell_evenly(dim: int) -> None:
    points = points_in_shell(50_000, dim, 0.6, 2.0, torch.Generator().manual_seed(dim))
    lengths = torch.linalg.vector_norm(points, dim=1)
    assert float(lengths.min()) >= 0.6
    assert float(lengths.max()) <= 2.0
    # The volume within a uniform point's radius is itself uniform, and every direction is alike.
    shares = (lengths**dim - 0.6**dim) / (2.0**dim - 0.6**dim)
    assert stats.kstest(shares.numpy(), "uniform").pvalue > 1e-3
    assert float(points.mean(dim=0).abs().max()) < 6 * 2.0 / math.sqrt(dim * len(points))


@settings(deadline=None)
@given(dims, radii)
def test_the_surface_is_the_volumes_derivative(dim: int, radius: float) -> None:
    place = number(radius).requires_grad_(True)
    log_volume = log_ball_volume(dim, place)
    (slope,) = torch.autograd.grad(log_volume, place)
    found = float((log_volume + slope.log()).detach())
    assert found == pytest.approx(float(log_sphere_area(dim, place.detach())), abs=1e-8)


@settings(deadline=None)
@given(dims, radii, st.floats(0, 1), st.floats(0, 1))
def test_shells_add_up_and_stay_finite(dim: int, outer: float, first: float, second: float) -> None:
    low, high = sorted((first * outer, second * outer))
    ends = [0.0, low, high, outer]
    parts = torch.stack([log_shell_volume(dim, number(one), number(other)) for one, other in pairwise(ends) if other])
    whole = log_ball_volume(dim, number(outer))
    assert math.isfinite(float(whole))
    assert float(torch.logsumexp(parts, dim=0)) == pytest.approx(float(whole), abs=1e-8)


@settings(deadline=None)
@given(st.integers(1, 64), st.floats(0.1, 10.0))
def test_a_sphere_is_an_ellipsoid(dim: int, weight: float) -> None:
    found = log_ellipsoid_volume(weight * torch.eye(dim, dtype=torch.float64), number(2.0))
    assert float(found) == pytest.approx(float(log_ball_volume(dim, number(math.sqrt(2.0 / weight)))), abs=1e-9)


def test_a_thin_shell_in_many_dimensions_keeps_its_digits() -> None:
    thin = log_shell_volume(512, number(10.0), number(10.0 + 1e-9))
    assert float(thin) == pytest.approx(float(log_sphere_area(512, number(10.0))) + math.log(1e-9), abs=1e-6)


@pytest.mark.parametrize(("dim", "scale", "offset"), [(1, 1.0, 0.0), (2, 0.5, 1.2), (8, 2.0, 7.0), (64, 1.0, 30.0)])
def test_squared_radii_follow_scipys_chi_square(dim: int, scale: float, offset: float) -> None:
    law = stats.chi2(dim) if offset == 0 else stats.ncx2(dim, (offset / scale) ** 2)
    squares = scale**2 * law.ppf([0.001, 0.1, 0.5, 0.9, 0.999])
    places = torch.from_numpy(squares)
    shares = squared_radius_share(places, dim, scale, offset)
    assert shares.tolist() == pytest.approx(law.cdf(squares / scale**2).tolist(), abs=1e-10)
    logs = log_squared_radius_density(places, dim, scale, offset)
    assert logs.tolist() == pytest.approx((law.logpdf(squares / scale**2) - 2 * math.log(scale)).tolist(), abs=1e-8)
    assert squared_radius_quantiles(shares, dim, scale, offset).tolist() == pytest.approx(squares.tolist(), rel=1e-6)


def test_the_density_of_the_squared_radius_integrates_to_its_share() -> None:
    def height(square: float) -> float:
        return math.exp(float(log_squared_radius_density(number(square), 5, 1.5, 2.0)))

    found, _ = integrate.quad(height, 0, 20)
    assert found == pytest.approx(float(squared_radius_share(number(20.0), 5, 1.5, 2.0)), abs=1e-8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: log_ball_volume(0, number(1.0)), r"dim must be at least 1, .*; got 0\."),
        (lambda: log_ball_volume(2, number(-1.0)), r"A radius must not be negative"),
        (lambda: log_shell_volume(2, number(2.0), number(1.0)), r"A shell needs 0 <= inner <= outer"),
        (
            lambda: log_ellipsoid_volume(torch.diag(number(1.0) * torch.tensor([1, -1])), number(1.0)),
            "positive definite",
        ),
        (lambda: squared_radius_share(number(1.0), 2, 0.0), r"scale must be positive"),
    ],
)
def test_a_callers_mistake_is_named(call, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
