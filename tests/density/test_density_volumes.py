"""Volumes against closed forms and uniform points."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmahal.density import log_ball_volume, log_shell_volume
from maxmahal.errors import ArgumentError

dims = st.integers(1, 512)
radii = st.floats(1e-3, 1e3)


def number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


@pytest.mark.parametrize(
    ("dim", "volume"), [(1, 2 * 3.0), (2, math.pi * 9), (3, 4 / 3 * math.pi * 27), (4, math.pi**2 / 2 * 81)]
)
def test_what_school_teaches(dim: int, volume: float) -> None:
    assert float(log_ball_volume(dim, number(3.0))) == pytest.approx(math.log(volume), abs=1e-12)


@pytest.mark.parametrize("dim", [2, 3, 4])
def test_a_ball_and_a_shell_hold_their_share_of_a_cubes_uniform_points(dim: int) -> None:
    points = np.random.default_rng(dim).uniform(-1, 1, (400_000, dim))
    lengths = np.linalg.norm(points, axis=1)
    for inner, outer in ((0.0, 1.0), (0.5, 0.8)):
        share = float(np.mean((lengths >= inner) & (lengths <= outer)))
        volume = math.exp(float(log_shell_volume(dim, number(inner), number(outer))))
        assert share * 2**dim == pytest.approx(volume, abs=4 * 2**dim * math.sqrt(share * (1 - share) / len(points)))


@settings(deadline=None)
@given(dims, radii, st.floats(0, 1), st.floats(0, 1))
def test_shells_add_up_and_stay_finite(dim: int, outer: float, first: float, second: float) -> None:
    low, high = sorted((first * outer, second * outer))
    ends = [0.0, low, high, outer]
    parts = torch.stack([log_shell_volume(dim, number(one), number(other)) for one, other in pairwise(ends) if other])
    whole = log_ball_volume(dim, number(outer))
    assert math.isfinite(float(whole))
    assert float(torch.logsumexp(parts, dim=0)) == pytest.approx(float(whole), abs=1e-8)


def test_a_thin_shell_in_many_dimensions_keeps_its_digits() -> None:
    thin = log_shell_volume(512, number(10.0), number(10.0 + 1e-9))
    # dV = V·d/r·dr
    ball = float(log_ball_volume(512, number(10.0)))
    assert float(thin) == pytest.approx(ball + math.log(512 / 10.0 * 1e-9), abs=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: log_ball_volume(0, number(1.0)), r"dim must be at least 1, .*; got 0\."),
        (lambda: log_ball_volume(2, number(-1.0)), r"A radius must not be negative"),
        (lambda: log_shell_volume(2, number(2.0), number(1.0)), r"A shell needs 0 <= inner <= outer"),
    ],
)
def test_a_callers_mistake_is_named(call, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
