"""Runners-up, density by nearest neighbours, and Theorem 1 with more than two classes."""

import math

import pytest
import torch

from maxmahal.centers import max_mahalanobis_centers
from maxmahal.density import log_neighbour_density, pair_contours, runners_up
from maxmahal.errors import ArgumentError
from maxmahal.losses.gsce import gsce_loss, quadratic_logits


def test_runners_up() -> None:
    logits = torch.tensor([[3.0, 2.0, 1.0], [3.0, 1.0, 2.0], [0.0, 5.0, 4.0], [9.0, 1.0, 2.0]])
    labels = torch.tensor([0, 0, 1, 2])
    assert runners_up(logits, labels).tolist() == [1, 2, 2, 0]


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


def test_a_callers_mistake_is_named() -> None:
    with pytest.raises(ArgumentError, match=r"neighbours must lie in 1\.\.2 because .* got 3\."):
        log_neighbour_density(torch.zeros(3, 2), 3)


def plane(classes: int, norm: float = 4.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Class 0 with half the others' precision, on preset centers in two dimensions."""
    precisions = torch.ones(classes, dtype=torch.float64)
    precisions[0] = 0.5
    centers = max_mahalanobis_centers(classes, 2, norm, dtype=torch.float64)
    return centers, precisions, torch.zeros(classes, dtype=torch.float64)


@pytest.mark.parametrize(
    ("classes", "norm", "shell", "region"), [(2, 4.0, 1.0, 1.0), (3, 4.0, 0.745, 1.17), (10, 2.0, 0.38, 0.49)]
)
def test_with_more_classes_theorem_1_is_an_approximation(
    classes: int, norm: float, shell: float, region: float
) -> None:
    """Class 1 is the runner-up in a part of the shell, and log-sum-exp is larger than the maximum: counted in a box."""
    pair = plane(classes, norm)
    ends = torch.tensor([0.2, 0.25], dtype=torch.float64)
    volume = math.exp(float(pair_contours(*(each[:2] for each in pair)).log_shell_volume(*ends)))
    assert volume == pytest.approx(math.pi / 0.5 * math.log(math.expm1(0.25) / math.expm1(0.2)))
    side = 24.0  # around the pair's M = 2μ_1 - μ_0; it contains every contour below 0.25
    points = side * (torch.rand((500_000, 2), generator=torch.Generator().manual_seed(1), dtype=torch.float64) - 0.5)
    points += 2 * pair[0][1] - pair[0][0]
    logits, labels = quadratic_logits(points, *pair), torch.zeros(len(points), dtype=torch.int64)
    second = runners_up(logits, labels) == 1
    losses = ((logits[:, 1] - logits[:, 0]).exp().log1p(), gsce_loss(points, labels, *pair))
    counts = [int((second & (each >= 0.2) & (each <= 0.25)).sum()) for each in losses]
    kept, counted = (side**2 * count / len(points) for count in counts)
    assert kept / volume == pytest.approx(shell, rel=4 / math.sqrt(counts[0]))
    assert counted / (volume if classes == 2 else 1) == pytest.approx(region, rel=4 / math.sqrt(counts[1]))
