"""Figures 1 and 2: level sets and descent are those of the losses, and samples move as the paper says."""

import math

import pytest
import torch

from paper.gallery.figure import FigureOptions
from paper.gallery.figures import level_sets


@pytest.mark.parametrize("name", ["SCE", "g-SCE", "SCE + center", "MMC"])
def test_fields_levels_and_descents_are_those_of_the_loss(name: str) -> None:
    features, labels = level_sets.draw_samples(0)
    loss = level_sets.plane_losses(features, labels)[name]
    field = level_sets.loss_field(loss, 0, 5.0, 61)
    zeros = torch.zeros(1, dtype=torch.int64)
    axis = torch.tensor(field["axis"], dtype=torch.float64)
    for row, column in ((0, 0), (10, 40), (60, 3)):
        point = torch.stack([axis[column], axis[row]])[None]
        assert field["values"][row][column] == pytest.approx(float(loss(point, zeros)), rel=1e-3, abs=1e-3)
    assert len(field["levels"]) == 7
    for level in field["levels"]:
        points = torch.tensor([point for line in level["lines"] for point in line], dtype=torch.float64)
        found = loss(points, torch.zeros(len(points), dtype=torch.int64))
        assert len(points) > 10
        assert float((found.log() - math.log(level["loss"])).abs().max()) < 0.1
    for place, down in list(zip(field["places"], field["descent"], strict=True))[::17]:
        here, step = torch.tensor([place], dtype=torch.float64), 1e-5
        for direction in (0, 1):
            shift = step * torch.eye(2, dtype=torch.float64)[direction]
            slope = float(loss(here + shift, zeros) - loss(here - shift, zeros)) / (2 * step)
            assert down[direction] == pytest.approx(-slope, abs=2e-4)


def test_samples_follow_their_loss_downwards() -> None:
    features, labels = level_sets.draw_samples(1)
    for name, loss in level_sets.plane_losses(features, labels).items():
        before = loss(features, labels).mean()
        moved = level_sets.follow(loss, features, labels, 25, 0.1)
        assert float(loss(moved, labels).mean()) < float(before), name


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_mmc_gathers_and_softmax_does_not(seed: int) -> None:
    record = level_sets.compute_figure1(FigureOptions(seed=seed))
    sce, mmc = record["panels"]
    gains = [each["log_density_after"] - each["log_density_before"] for each in (sce, mmc)]
    assert gains[1] > gains[0] + 2
    after = torch.tensor(mmc["after"])
    centers = torch.tensor(mmc["centers"])[torch.tensor(mmc["labels"])]
    assert float((after - centers).norm(dim=1).mean()) < 0.25


def test_under_gsce_class_0_goes_away_from_the_hyperspheres_center() -> None:
    """σ_0 < σ_1: lower loss is farther from M = (σ_0·μ_0 - σ_1·μ_1)/(σ_0 - σ_1), without end (Figure 2)."""
    features, labels = level_sets.draw_samples(0)
    loss = level_sets.plane_losses(features, labels)["g-SCE"]
    middle = (0.3 * loss.centers[0] - 0.6 * loss.centers[1]) / (0.3 - 0.6)
    lengths = []
    for steps in (0, 100, 1000):
        moved = level_sets.follow(loss, features, labels, steps, 0.1)[labels == 0]
        lengths.append(float((moved - middle).norm(dim=1).mean()))
    assert lengths[0] < lengths[1] < lengths[2]
