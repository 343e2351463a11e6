"""The search for spherical codes, against the codes that are known to be optimal."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmahal.centers import center_statistics, random_centers, spherical_code, spherical_codes
from maxmahal.errors import ArgumentError

# The Tammes problem: the largest smallest angle, in degrees, of 5 to 14 points on the sphere.
TAMMES = dict(
    zip(range(5, 15), [90, 90, 77.8695, 74.8585, 70.5288, 66.1468, 63.4349, 63.4349, 57.1367, 55.6706], strict=True)
)
# The 24-cell and the 600-cell: no wider codes of 24 and 120 points are known in four dimensions.
POLYTOPES = {(24, 4): 60.0, (120, 4): 36.0}


def smallest_angle(points: torch.Tensor) -> float:
    return center_statistics(points).smallest_angle


@pytest.mark.parametrize(("num_points", "angle"), TAMMES.items())
def test_the_tammes_problem_is_solved(num_points: int, angle: float) -> None:
    assert smallest_angle(spherical_code(num_points, 3)) == pytest.approx(angle, abs=0.01)


@pytest.mark.parametrize("num_points", [3, 7])
def test_the_plane_is_solved(num_points: int) -> None:
    assert smallest_angle(spherical_code(num_points, 2, restarts=16)) == pytest.approx(360 / num_points, abs=0.01)


@pytest.mark.parametrize("num_points", [2, 4, 6])
def test_the_simplex_is_found(num_points: int) -> None:
    angle = math.degrees(math.acos(-1 / (num_points - 1)))
    assert smallest_angle(spherical_code(num_points, 5, restarts=16)) == pytest.approx(angle, abs=0.01)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 60), st.integers(2, 20), st.integers(0, 9))
def test_never_worse_than_random(num_points: int, dim: int, seed: int) -> None:
    code = spherical_code(num_points, dim, restarts=2, steps=100, seed=seed)
    assert code.shape == (num_points, dim)
    torch.testing.assert_close(code.norm(dim=1), torch.ones(num_points, dtype=torch.float64))
    assert smallest_angle(code) >= smallest_angle(random_centers(num_points, dim, seed=seed)) - 1e-6


def test_the_best_restart_is_kept_and_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    opposite, aslant, same = [[1.0, 0.0], [-1.0, 0.0]], [[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [1.0, 0.0]]
    relaxed = torch.tensor([aslant, opposite, same], dtype=torch.float64)
    monkeypatch.setattr(spherical_codes, "_relax", lambda points, steps: relaxed)
    assert spherical_code(2, 2, restarts=3).tolist() == opposite


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = spherical_code(30, 4, restarts=3, steps=20, seed=5)
    statistics = center_statistics(whole)
    monkeypatch.setattr(spherical_codes, "BLOCK_ENTRIES", 7 * 3 * 30)  # blocks of 7, 7, 7, 7 and 2 rows
    heights = [cosines.shape[1] for _, cosines in spherical_codes.cosine_blocks(whole.expand(3, -1, -1))]
    assert heights == [7, 7, 7, 7, 2]
    torch.testing.assert_close(spherical_code(30, 4, restarts=3, steps=20, seed=5), whole, rtol=0, atol=1e-9)
    assert center_statistics(whole).largest_cosine == pytest.approx(statistics.largest_cosine, abs=1e-12)


def test_memory_stays_bounded_for_many_points() -> None:
    points = torch.nn.functional.normalize(torch.ones(1, 100_000, 2, dtype=torch.float64), dim=2)
    _, first = next(spherical_codes.cosine_blocks(points))
    assert first.numel() <= spherical_codes.BLOCK_ENTRIES


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: spherical_code(1, 3), r"num_points must be a whole number of at least 2; got 1\."),
        (lambda: spherical_code(5, 1), r"dim must be a whole number of at least 2; got 1\."),
        (lambda: spherical_code(5, 3, restarts=0), r"restarts must be a whole number of at least 1; got 0\."),
        (lambda: spherical_code(5, 3, steps=0), r"steps must be a whole number of at least 1; got 0\."),
    ],
)
def test_a_callers_mistake_is_named(call, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_every_seed_solves_the_tammes_problem(seed: int) -> None:
    found = {count: smallest_angle(spherical_code(count, 3, seed=seed)) for count in TAMMES}
    assert found == pytest.approx(TAMMES, abs=0.1)


@pytest.mark.soak
@pytest.mark.parametrize("size", POLYTOPES)
def test_most_seeds_find_the_regular_polytopes(size: tuple[int, int]) -> None:
    found = [smallest_angle(spherical_code(*size, seed=seed)) for seed in range(10)]
    assert sorted(found)[5:] == pytest.approx([POLYTOPES[size]] * 5, abs=0.1)


@pytest.mark.soak
def test_a_thousand_points_spread_far_wider_than_chance() -> None:
    assert smallest_angle(spherical_code(1000, 64)) > 80
