"""Drawings are valid and complete."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from maxmahal.report.chart import CLASSES, Area, Dots, Line
from paper.gallery.figure import FigureRecord
from paper.gallery.plane import Window, arrow, decision_regions
from paper.gallery.registry import FIGURES

NAMES = [name for name in FIGURES if name != "figure3b"]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", NAMES)
def test_a_drawing_is_xml_without_holes(records: dict[str, FigureRecord], name: str) -> None:
    text = FIGURES[name].draw(records[name]).file()
    root = ET.fromstring(text)
    assert root.tag == f"{SVG}svg"
    numbers = [value for each in root.iter() for key, value in each.attrib.items() if key in ("d", "x", "y", "viewBox")]
    assert len(numbers) > 10
    assert not any("nan" in value.lower() or "inf" in value.lower() for value in numbers)
    assert "prefers-color-scheme" in text  # dark mode


def test_attack_paths_show_ten_classes_and_every_objective_twice(records: dict[str, FigureRecord]) -> None:
    figure, record = FIGURES["figure3b-digits"], records["figure3b-digits"]
    drawings = figure.panels(record)
    assert [drawing.title.split(":")[0] for drawing in drawings] == ["MMC", "MMC", "SCE", "SCE"]
    for drawing in drawings:
        clouds = {part.ink: len(part.points) for part in drawing.parts if isinstance(part, Dots) and part.radius < 2.3}
        assert {f"c{label}" for label in range(CLASSES)} <= set(clouds)
        longest = {part.ink: part for part in drawing.parts if isinstance(part, Line) and part.width == 2.0}
        wanted = {"ink", "s6", "s2", "s3"} | ({"bad"} if drawing.title.startswith("MMC") else set())
        assert wanted <= set(longest)
        assert all(len(longest[ink].points) == record["steps"] + 1 for ink in wanted - {"ink"})
    assert drawings[0].parts != drawings[1].parts  # two inputs


def test_decision_regions_tile_the_window() -> None:
    draw = np.random.default_rng(0)
    weights, bias, view = draw.normal(size=(6, 2)), draw.normal(size=6), [0.5, -0.2, 3.0]
    regions = decision_regions(weights, bias, view)

    def area(corners: np.ndarray) -> float:
        x, y = corners.T if len(corners) else np.zeros((2, 1))
        return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)

    assert sum(map(area, regions)) == pytest.approx(36.0)
    for label, corners in enumerate(regions):
        if len(corners):
            assert int((weights @ corners.mean(axis=0) + bias).argmax()) == label


def test_the_window_keeps_up_up() -> None:
    window = Window([1.0, 1.0, 2.0], side=100.0)
    assert window.place(np.array([[1.0, 1.0], [3.0, 3.0], [-1.0, -1.0]])) == [(50, 50), (100, 0), (0, 100)]


def test_an_arrow_ends_where_it_points() -> None:
    line, head = arrow((0.0, 0.0), (10.0, 0.0), "ink")
    assert isinstance(line, Line)
    assert isinstance(head, Area)
    assert head.points[0] == (10.0, 0.0)
    assert arrow((1.0, 1.0), (1.0, 1.0), "ink") == [Dots([(1.0, 1.0)], "ink", 1.3)]
