"""Max-Mahalanobis centers against the paper's own loop, and against what the paper says of them."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float64
from torch import Tensor

from maxmahal.centers import max_mahalanobis_centers, random_centers
from maxmahal.errors import ArgumentError, check_count


def algorithm_1(norm: float, dim: int, num_classes: int) -> list[list[float]]:
    """The paper's loop, line by line; one spare coordinate where num_classes = dim + 1 makes it write past the end."""
    centers = [[0.0] * (dim + 1) for _ in range(num_classes)]
    centers[0][0] = 1.0
    for i in range(1, num_classes):
        for j in range(i):
            inner = sum(a * b for a, b in zip(centers[i], centers[j], strict=True))
            centers[i][j] = -(1 + inner * (num_classes - 1)) / (centers[j][j] * (num_classes - 1))
        centers[i][i] = math.sqrt(max(0.0, 1 - sum(a * a for a in centers[i])))
    return [[norm * a for a in center] for center in centers]


def cosines(centers: Tensor) -> Float64[Tensor, " pairs"]:
    directions = torch.nn.functional.normalize(centers.to(torch.float64), dim=1)
    rows, columns = torch.triu_indices(len(centers), len(centers), offset=1)
    return (directions @ directions.mT)[rows, columns]


sizes = st.integers(1, 24).flatmap(lambda dim: st.tuples(st.integers(1, dim + 1), st.just(dim)))


@settings(deadline=None)
@given(sizes, st.floats(0.1, 100.0))
def test_equals_the_papers_loop(size: tuple[int, int], norm: float) -> None:
    num_classes, dim = size
    centers = max_mahalanobis_centers(num_classes, dim, norm, dtype=torch.float64)
    expected = torch.tensor(algorithm_1(norm, dim, num_classes), dtype=torch.float64)
    # The loop's last pivot is the root of a rounding error, so only to about the root of float64's precision.
    torch.testing.assert_close(centers, expected[:, :dim], rtol=0, atol=1e-6 * norm)


@settings(deadline=None)
@given(sizes, st.floats(0.1, 100.0))
def test_what_the_paper_states(size: tuple[int, int], norm: float) -> None:
    num_classes, dim = size
    centers = max_mahalanobis_centers(num_classes, dim, norm, exact=True, dtype=torch.float64)
    assert centers.shape == (num_classes, dim)
    torch.testing.assert_close(
        centers.norm(dim=1), torch.full((num_classes,), norm, dtype=torch.float64), rtol=1e-12, atol=0
    )
    if num_classes > 1:
        torch.testing.assert_close(
            cosines(centers), torch.full_like(cosines(centers), -1 / (num_classes - 1)), rtol=0, atol=1e-12
        )
        assert centers.sum(dim=0).norm() < 1e-11 * norm * num_classes
        assert (centers != 0).any(dim=0).sum() == num_classes - 1


@settings(deadline=None)
@given(sizes.filter(lambda size: size[0] > 1), st.integers(0, 10))
def test_no_random_centers_are_better_spread(size: tuple[int, int], seed: int) -> None:
    best = cosines(max_mahalanobis_centers(*size, dtype=torch.float64)).max()
    assert cosines(random_centers(*size, seed=seed, dtype=torch.float64)).max() >= best - 1e-12


@settings(deadline=None)
@given(st.integers(3, 20).flatmap(lambda dim: st.tuples(st.integers(dim + 2, 2 * dim), st.just(dim))))
def test_up_to_twice_the_dimension_no_angle_is_below_90_degrees(size: tuple[int, int]) -> None:
    centers = max_mahalanobis_centers(*size, 3.0, dtype=torch.float64)
    assert centers.shape == size
    assert cosines(centers).max() == 0
    torch.testing.assert_close(centers.norm(dim=1), torch.full((size[0],), 3.0, dtype=torch.float64))
    assert centers.sum(dim=0).norm() < 1e-12 * size[0]
    assert torch.linalg.matrix_rank(centers) == size[1]


def test_the_cross_polytope_has_pairs_of_opposite_centers() -> None:
    expected = torch.tensor([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]])
    torch.testing.assert_close(max_mahalanobis_centers(6, 3, 1.0), expected)


def test_the_sizes_of_orthogonal_simplices_are_as_even_as_possible() -> None:
    centers = max_mahalanobis_centers(8, 5, 1.0)  # three simplices of 3, 3 and 2 points
    groups = (centers @ centers.mT < -0.1).sum(dim=1) + 1
    assert groups.tolist() == [3] * 6 + [2] * 2


@pytest.mark.parametrize(
    ("num_classes", "angle"), [(2, 180.0), (3, 120.0), (4, math.degrees(math.acos(-1 / 3)))], ids=lambda v: f"{v:g}"
)
def test_segment_triangle_and_tetrahedron(num_classes: int, angle: float) -> None:
    for dim in (num_classes - 1, 7):
        angles = cosines(max_mahalanobis_centers(num_classes, dim, dtype=torch.float64)).clamp(-1, 1).acos().rad2deg()
        torch.testing.assert_close(angles, torch.full_like(angles, angle), rtol=0, atol=1e-5)


def test_one_class_sits_on_the_first_axis() -> None:
    assert max_mahalanobis_centers(1, 3, 5.0).tolist() == [[5.0, 0.0, 0.0]]
    assert max_mahalanobis_centers(1, 1).tolist() == [[10.0]]
    assert max_mahalanobis_centers(2, 1).tolist() == [[10.0], [-10.0]]


@pytest.mark.parametrize("num_points", [5, 6, 17])
def test_the_plane_holds_regular_polygons(num_points: int) -> None:
    assert cosines(max_mahalanobis_centers(num_points, 2)).max() == pytest.approx(math.cos(math.tau / num_points))


def test_a_thousand_classes_are_exact() -> None:
    assert (cosines(max_mahalanobis_centers(1000, 1024)) + 1 / 999).abs().max() < 1e-6


def test_beyond_twice_the_dimension_the_search_answers() -> None:
    centers = max_mahalanobis_centers(12, 3, 2.0)
    assert centers.dtype == torch.float32
    assert math.degrees(math.acos(cosines(centers).max())) == pytest.approx(63.4349, abs=0.1)  # the icosahedron


def test_the_search_follows_its_seed() -> None:
    centers = max_mahalanobis_centers(7, 3, seed=1)
    assert torch.equal(centers, max_mahalanobis_centers(7, 3, seed=1))
    assert not torch.equal(centers, max_mahalanobis_centers(7, 3, seed=2))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 50), st.integers(1, 50), st.integers(0, 5))
def test_random_centers_have_the_norm_and_follow_the_seed(num_classes: int, dim: int, seed: int) -> None:
    centers = random_centers(num_classes, dim, 4.0, seed=seed)
    torch.testing.assert_close(centers.norm(dim=1), torch.full((num_classes,), 4.0))
    assert torch.equal(centers, random_centers(num_classes, dim, 4.0, seed=seed))


def test_random_centers_are_uniform_on_the_sphere() -> None:
    centers = random_centers(40_000, 4, 1.0, seed=0, dtype=torch.float64)
    # Each coordinate has mean 0 and variance 1/4; five standard errors of 40,000 draws.
    assert centers.mean(dim=0).abs().max() < 5 * 0.5 / 200
    torch.testing.assert_close(centers.mT @ centers / 40_000, torch.eye(4).double() / 4, rtol=0, atol=0.01)
    assert not torch.equal(centers[:10], random_centers(10, 4, 1.0, seed=1, dtype=torch.float64))


def test_the_global_random_state_is_left_alone() -> None:
    before = torch.get_rng_state()
    max_mahalanobis_centers(7, 3, seed=3)
    random_centers(7, 3, seed=3)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: max_mahalanobis_centers(0, 3), r"num_classes must be a whole number of at least 1; got 0\."),
        (lambda: max_mahalanobis_centers(3, 0), r"dim must be a whole number of at least 1; got 0\."),
        (lambda: max_mahalanobis_centers(3, -2), r"dim must be .* got -2\."),
        (lambda: max_mahalanobis_centers(True, 3), r"num_classes must be .* got True\."),
        (lambda: max_mahalanobis_centers(3, 3, 0.0), r"norm must be a positive, finite number.*; got 0\.0\."),
        (lambda: max_mahalanobis_centers(3, 3, math.nan), r"norm must be .* got nan\."),
        (lambda: max_mahalanobis_centers(3, 3, math.inf), r"norm must be .* got inf\."),
        (
            lambda: max_mahalanobis_centers(3, 3, dtype=torch.int64),
            r"dtype must be a floating-point type.*torch\.int64",
        ),
        (lambda: max_mahalanobis_centers(3, 1), r"dim=1 is a line.* got num_classes=3: raise dim to 2 or more\."),
        (
            lambda: max_mahalanobis_centers(10, 8, exact=True),
            r"need num_classes <= dim \+ 1.* got num_classes=10 and dim=8: raise dim to 9 or more, or drop exact\.",
        ),
        (lambda: random_centers(0, 3, seed=0), r"num_classes must be"),
        (lambda: random_centers(3, 0, seed=0), r"dim must be"),
        (lambda: random_centers(3, 3, -1.0, seed=0), r"norm must be"),
        (lambda: check_count("dim", 3.0), r"dim must be a whole number of at least 1; got 3\.0\."),
    ],
)
def test_a_callers_mistake_is_named(call, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
