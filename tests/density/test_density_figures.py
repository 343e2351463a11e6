"""The figures: what their records hold is true, and drawings need nothing but the record."""

import json
import math
import xml.etree.ElementTree as ET

import pytest
import torch

from maxmahal.density import figures, planes
from maxmahal.density.drawing import Scale

PAIRS = {
    "figure1": (figures.compute_figure1, figures.draw_figure1),
    "figure2": (figures.compute_figure2, figures.draw_figure2),
    "densities": (lambda seed: figures.compute_densities(seed, samples=20_000), figures.draw_densities),
}


@pytest.fixture(scope="module")
def records() -> dict:
    return {name: compute(seed=0) for name, (compute, _) in PAIRS.items()}


@pytest.mark.parametrize("name", PAIRS)
def test_a_record_survives_json_and_draws_the_same(name: str, records: dict) -> None:
    _, draw = PAIRS[name]
    drawn = draw(records[name])
    assert drawn == draw(json.loads(json.dumps(records[name], allow_nan=False)))
    root = ET.fromstring(drawn)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root[0].text == records[name]["title"]
    assert "nan" not in drawn
    assert "prefers-color-scheme:dark" in drawn
    assert records[name] == PAIRS[name][0](seed=0)


def test_every_style_rule_is_bound_to_the_drawing(records: dict) -> None:
    style = figures.draw_figure1(records["figure1"]).split("<style>")[1].split("</style>")[0]
    rules = style.replace("@media (prefers-color-scheme:dark){", "").split("}")
    selectors = [one for rule in rules if "{" in rule for one in rule.split("{")[0].split(",")]
    assert len(selectors) > 15
    assert all("svg.mm-density" in selector for selector in selectors)


@pytest.mark.parametrize("name", ["SCE", "g-SCE", "SCE + center", "MMC"])
def test_fields_levels_and_descents_are_those_of_the_loss(name: str) -> None:
    features, labels = planes.draw_samples(0)
    loss = planes.plane_losses(features, labels)[name]
    field = planes.loss_field(loss, 0, 5.0, 61)
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
    features, labels = planes.draw_samples(1)
    for name, loss in planes.plane_losses(features, labels).items():
        before = loss(features, labels).mean()
        moved = planes.follow(loss, features, labels, 25, 0.1)
        assert float(loss(moved, labels).mean()) < float(before), name


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_mmc_gathers_and_softmax_does_not(seed: int) -> None:
    record = figures.compute_figure1(seed)
    sce, mmc = record["panels"]
    gains = [each["log_density_after"] - each["log_density_before"] for each in (sce, mmc)]
    assert gains[1] > gains[0] + 2
    after = torch.tensor(mmc["after"])
    centers = torch.tensor(mmc["centers"])[torch.tensor(mmc["labels"])]
    assert float((after - centers).norm(dim=1).mean()) < 0.25


def test_under_gsce_class_0_goes_away_from_the_hyperspheres_center() -> None:
    """σ_0 < σ_1: lower loss is farther from M = (σ_0·μ_0 - σ_1·μ_1)/(σ_0 - σ_1), without end (Figure 2)."""
    features, labels = planes.draw_samples(0)
    loss = planes.plane_losses(features, labels)["g-SCE"]
    middle = (0.3 * loss.centers[0] - 0.6 * loss.centers[1]) / (0.3 - 0.6)
    lengths = []
    for steps in (0, 100, 1000):
        moved = planes.follow(loss, features, labels, steps, 0.1)[labels == 0]
        lengths.append(float((moved - middle).norm(dim=1).mean()))
    assert lengths[0] < lengths[1] < lengths[2]


def test_the_densities_figure_says_who_is_right(records: dict) -> None:
    record = figures.compute_densities(seed=0)
    for each in record["panels"]:
        assert each["exact_p_value"] > 1e-4
        assert each["paper_p_value"] < 1e-6
        assert len(each["losses"]) == 9


def test_scales_have_round_ticks_within_their_ends() -> None:
    assert Scale(0.0, 10.0).ticks() == pytest.approx([0, 2, 4, 6, 8, 10])
    assert Scale(0.5, 60.0, log=True).ticks() == pytest.approx([0.5, 1, 2, 5, 10, 20, 50])
    assert Scale.around([1.0, math.inf, 3.0]).place(2.0) == pytest.approx(0.5)
    assert Scale.around([1.0, 100.0], log=True).place(10.0) == pytest.approx(0.5)
    assert Scale(0.0, 1.0).place(7.0) == 1.0


def test_a_record_is_written_as_json(tmp_path, records: dict) -> None:
    figures.write_record(records["densities"], tmp_path / "densities.json")
    assert json.loads((tmp_path / "densities.json").read_text()) == records["densities"]
