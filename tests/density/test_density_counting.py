"""Eq. 2 counted, and what more than two classes do to Theorem 1."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmahal.centers import max_mahalanobis_centers
from maxmahal.density import (
    CenterSpheres,
    count_density,
    log_ball_volume,
    log_neighbour_density,
    region_volume,
    runner_up_errors,
    runners_up,
)
from maxmahal.density.counting import count_between, of_pair
from maxmahal.errors import ArgumentError
from maxmahal.losses.quadratic import gsce_loss, quadratic_logits


@settings(deadline=None)
@given(st.lists(st.floats(0, 10), min_size=1, max_size=50), st.floats(0, 5), st.floats(0.1, 5))
def test_counts_are_those_of_a_loop(losses: list[float], low: float, width: float) -> None:
    found = count_density(torch.tensor(losses, dtype=torch.float64), low, low + width, 2.0)
    expected = sum(low <= loss < low + width for loss in losses)
    assert found.samples == expected
    assert found.log_density == (math.log(expected) - 2.0 if expected else -math.inf)
    assert found.relative_error == (1 / math.sqrt(expected) if expected else math.inf)


def test_neighbouring_ranges_share_no_sample() -> None:
    ends = torch.tensor([0.0, 1.0, 2.0, 3.0], dtype=torch.float64)
    losses = torch.tensor([0.0, 1.0, 1.0, 2.5, 3.0])
    assert count_between(losses, ends[:-1], ends[1:]).tolist() == [1, 2, 1]


def test_features_spread_evenly_are_counted_at_their_density() -> None:
    """100,000 points in a ball of radius 2 in three dimensions, counted between two contours of MMC."""
    draw = torch.Generator().manual_seed(0)
    points = torch.randn((100_000, 3), generator=draw, dtype=torch.float64)
    points *= 2 * torch.rand((100_000, 1), generator=draw, dtype=torch.float64) ** (1 / 3) / points.norm(dim=1)[:, None]
    losses, spheres = 0.5 * points.square().sum(dim=1), CenterSpheres(torch.zeros(3))
    ends = (torch.tensor(end, dtype=torch.float64) for end in (0.3, 0.5))
    found = count_density(losses, 0.3, 0.5, float(spheres.log_shell_volume(*ends)))
    density = 100_000 / (4 / 3 * math.pi * 8)
    assert math.exp(found.log_density) == pytest.approx(density, rel=4 * found.relative_error)


def test_runners_up_and_pairs() -> None:
    logits = torch.tensor([[3.0, 2.0, 1.0], [3.0, 1.0, 2.0], [0.0, 5.0, 4.0], [9.0, 1.0, 2.0]])
    labels = torch.tensor([0, 0, 1, 2])
    assert runners_up(logits, labels).tolist() == [1, 2, 2, 0]
    assert of_pair(logits, labels, 0).tolist() == [0, 1]
    assert of_pair(logits, labels, 0, 2).tolist() == [1]


def test_neighbours_density_on_a_lattice() -> None:
    line = torch.arange(20, dtype=torch.float64)[:, None] * 0.5
    found = log_neighbour_density(line, neighbours=2)
    assert found[10].item() == pytest.approx(math.log(2 / (2 * 0.5)))  # one on each side, within a length of 2·0.5
    assert found[0].item() == pytest.approx(math.log(2 / (2 * 1.0)))
    assert torch.equal(log_neighbour_density(line, neighbours=2, queries=4), found[:4])


def test_neighbours_density_scales_as_a_volume() -> None:
    points = torch.randn((60, 4), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    change = log_neighbour_density(3 * points) - log_neighbour_density(points)
    assert change.tolist() == pytest.approx([-4 * math.log(3)] * 60)


def test_the_volume_of_any_region() -> None:
    half, error = region_volume(lambda points: points[:, 0] > 1.0, torch.tensor([1.0, 0.0, 0.0]), 2.0, draws=100_000)
    whole = math.exp(float(log_ball_volume(3, torch.tensor(2.0))))
    assert math.exp(half) == pytest.approx(whole / 2, rel=4 * error)
    shell, _ = region_volume(lambda points: points[:, 0] < 9, torch.zeros(3), 2.0, inner=1.0, draws=100)
    assert math.exp(shell) == pytest.approx(whole * (1 - 1 / 8))
    assert region_volume(lambda points: points[:, 0] > 9, torch.zeros(3), 2.0, draws=100) == (-math.inf, math.inf)


def plane(classes: int, norm: float = 4.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Class 0 with half the others' precision, on preset centers in two dimensions."""
    precisions = torch.ones(classes, dtype=torch.float64)
    precisions[0] = 0.5
    centers = max_mahalanobis_centers(classes, 2, norm, dtype=torch.float64)
    return centers, precisions, torch.zeros(classes, dtype=torch.float64)


def errors_of(classes: int, norm: float = 4.0):
    return runner_up_errors(*plane(classes, norm), label=0, runner_up=1, low=0.2, high=0.25)


def test_more_classes_leave_less_of_the_shell() -> None:
    """In two dimensions at C = 0.2 the shell's volume is 1.56; less and less of it belongs to the pair."""
    two, three, ten = (errors_of(classes) for classes in (2, 3, 10))
    exact = math.pi / 0.5 * math.log(math.expm1(0.25) / math.expm1(0.2))
    assert [each.shell for each in (two, three, ten)] == pytest.approx([exact] * 3)
    assert exact == pytest.approx(1.565, abs=1e-3)
    assert two.counted == pytest.approx(exact, rel=1e-5)
    assert three.counted == pytest.approx(1.17, abs=0.02)
    assert ten.counted == pytest.approx(0.67, abs=0.02)
    assert (two.runner_up_factor, two.log_sum_exp_factor) == pytest.approx((1, 1), rel=1e-5)
    assert three.runner_up_factor == pytest.approx(0.745, abs=0.01)
    assert ten.runner_up_factor == pytest.approx(0.44, abs=0.01)


def test_log_sum_exp_is_an_error_of_its_own() -> None:
    """It is small while classes are far apart; at norm 2, with ten of them, it takes another sixth away."""
    far, near = errors_of(10), errors_of(10, norm=2.0)
    assert far.log_sum_exp_factor == pytest.approx(0.98, abs=0.02)
    assert near.log_sum_exp_factor == pytest.approx(0.83, abs=0.02)
    assert near.runner_up_factor == pytest.approx(0.38, abs=0.01)


@pytest.mark.parametrize(("classes", "norm"), [(3, 4.0), (10, 4.0), (10, 2.0)])
def test_both_errors_are_those_of_a_count_in_a_box(classes: int, norm: float) -> None:
    """The same two volumes by uniform points in a wide square, with the loss of the library and no shells at all."""
    pair, found = plane(classes, norm), errors_of(classes, norm)
    side = 24.0  # around the pair's M = 2μ_1 - μ_0, far enough to hold every contour below 0.25
    points = side * (torch.rand((500_000, 2), generator=torch.Generator().manual_seed(1), dtype=torch.float64) - 0.5)
    points += 2 * pair[0][1] - pair[0][0]
    labels = torch.zeros(len(points), dtype=torch.int64)
    logits = quadratic_logits(points, *pair)
    second = logits[:, 1:].argmax(dim=1) == 0
    losses = {"counted": gsce_loss(points, labels, *pair), "kept": (logits[:, 1] - logits[:, 0]).exp().log1p()}
    for name, values in losses.items():
        hits = int((second & (values >= 0.2) & (values <= 0.25)).sum())
        assert hits > 200
        assert getattr(found, name) == pytest.approx(side**2 * hits / len(points), rel=4 / math.sqrt(hits))


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 6), st.integers(2, 6), st.integers(0, 1000))
def test_the_kept_part_is_never_more_than_the_shell(classes: int, dim: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    centers = torch.randn((classes, dim), generator=draw, dtype=torch.float64)
    precisions = 0.2 + torch.rand(classes, generator=draw, dtype=torch.float64)
    precisions[0] = 0.1  # below all others: every loss is to be had
    biases = torch.zeros(classes, dtype=torch.float64)
    found = runner_up_errors(centers, precisions, biases, label=0, runner_up=1, low=0.01, high=0.02, draws=2000)
    assert 0 <= found.runner_up_factor <= 1 + 1e-4
    assert found.counted >= 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: count_density(torch.zeros(2), 1.0, 1.0, 0.0), r"low must be below high"),
        (lambda: log_neighbour_density(torch.zeros(3, 2), 3), r"neighbours must lie in 1\.\.2 because .* got 3\."),
        (
            lambda: runner_up_errors(*plane(3), label=0, runner_up=0, low=0.2, high=0.3),
            r"label and runner_up must differ",
        ),
        (
            lambda: runner_up_errors(*plane(3), label=1, runner_up=2, low=0.2, high=0.3),
            r"The two precisions are equal",
        ),
        (
            lambda: runner_up_errors(*plane(3), label=1, runner_up=0, low=1e-300, high=2e-300),
            r"No feature has a loss between 1e-300 and 2e-300",
        ),
    ],
)
def test_a_callers_mistake_is_named(call, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
