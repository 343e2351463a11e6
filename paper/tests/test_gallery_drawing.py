"""Drawings: valid, complete, and the same figure in every format."""

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from paper.gallery import FIGURES, Record, write_figure
from paper.gallery.palette import CLASSES, INKS, palette
from paper.gallery.plane import Window, decision_regions
from paper.gallery.raster import dashes, to_image
from paper.gallery.scene import Area, Dots, Line, Scene, Text, beside
from paper.gallery.svg import stand_alone, to_svg

NAMES = [name for name in FIGURES if name != "figure3b"]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", NAMES)
def test_a_drawing_is_xml_without_holes(records: dict[str, Record], name: str) -> None:
    text = stand_alone(FIGURES[name].draw(records[name]))
    root = ET.fromstring(text)
    assert root.tag == f"{SVG}svg"
    numbers = [value for each in root.iter() for key, value in each.attrib.items() if key in ("d", "x", "y", "viewBox")]
    assert len(numbers) > 10
    assert not any("nan" in value.lower() or "inf" in value.lower() for value in numbers)
    assert "prefers-color-scheme" in text  # it is legible at night


def test_attack_paths_show_ten_classes_and_every_objective_twice(records: dict[str, Record]) -> None:
    figure, record = FIGURES["figure3b-digits"], records["figure3b-digits"]
    assert figure.panels is not None
    scenes = figure.panels(record, None)
    assert [scene.title.split(":")[0] for scene in scenes] == ["MMC", "MMC", "SCE", "SCE"]
    for scene in scenes:
        clouds = {part.ink: len(part.points) for part in scene.parts if isinstance(part, Dots) and part.radius < 2.3}
        assert {f"c{label}" for label in range(CLASSES)} <= set(clouds)
        longest = {part.ink: part for part in scene.parts if isinstance(part, Line) and part.width == 2.0}
        wanted = {"ink", "s6", "s2", "s3"} | ({"bad"} if scene.title.startswith("MMC") else set())
        assert wanted <= set(longest)
        assert all(len(longest[ink].points) == record["steps"] + 1 for ink in wanted - {"ink"})
    assert scenes[0].parts != scenes[1].parts  # two inputs


def test_a_frame_shows_the_way_so_far(records: dict[str, Record]) -> None:
    figure, record = FIGURES["figure3b-digits"], records["figure3b-digits"]
    assert figure.panels is not None
    scene = figure.panels(record, 7)[0]
    assert {len(part.points) for part in scene.parts if isinstance(part, Line) and part.ink == "s6"} == {8}


@pytest.mark.parametrize("name", ["figure5", "training-movie"])
def test_a_png_has_the_drawing_in_it(records: dict[str, Record], name: str, tmp_path: Path) -> None:
    write_figure(name, records[name], tmp_path / "figure.png")
    root = ET.fromstring(FIGURES[name].draw(records[name]))
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    with Image.open(tmp_path / "figure.png") as image:
        assert image.size == pytest.approx((2 * width, 2 * height), abs=1)
        assert len(set(image.convert("RGB").get_flattened_data())) > 20


def test_a_gif_has_every_frame(records: dict[str, Record], tmp_path: Path) -> None:
    record, count = records["training-movie"], len(records["training-movie"]["steps"])
    write_figure("training-movie", record, tmp_path / "movie.gif")
    with Image.open(tmp_path / "movie.gif") as film:
        assert film.n_frames == count
        first = film.convert("RGB")
        film.seek(count - 1)
        assert np.abs(np.asarray(first, float) - np.asarray(film.convert("RGB"), float)).max() > 50


def test_one_scene_looks_the_same_in_pixels() -> None:
    corner = [(10.0, 10.0), (30.0, 10.0), (30.0, 30.0), (10.0, 30.0)]
    parts = [Area(corner, "c1"), Dots([(60.0, 20.0)], "c2", 5.0), Line([(0.0, 50.0), (80.0, 50.0)], "bad", 4.0)]
    image = to_image(Scene("Parts", 80.0, 60.0, parts))
    shown = {ink: "#{:02x}{:02x}{:02x}".format(*image.getpixel(at)) for ink, at in  # type: ignore[misc]
             {"c1": (20, 20), "c2": (60, 20), "bad": (40, 50), "card": (70, 40)}.items()}  # fmt: skip
    assert shown == {ink: palette()[ink] for ink in shown}


def test_text_is_escaped_in_svg() -> None:
    text = to_svg(Scene("<a> & b", 10.0, 10.0, [Text(0.0, 5.0, "x < y & z")]))
    root = ET.fromstring(text)
    assert root.find(f"{SVG}title").text == "<a> & b"  # type: ignore[union-attr]
    assert root.find(f"{SVG}text").text == "x < y & z"  # type: ignore[union-attr]


def test_dashes_cover_their_share_of_the_line() -> None:
    pieces = dashes([(0.0, 0.0), (47.0, 0.0), (47.0, 43.0)], 5.0, 4.0)
    assert sum(abs(x1 - x0) + abs(y1 - y0) for (x0, y0), (x1, y1) in pieces) == pytest.approx(50.0)
    assert pieces[0] == [(0.0, 0.0), (5.0, 0.0)]


def test_panels_do_not_overlap_side_by_side() -> None:
    rim = Line([(0.0, 0.0), (100.0, 0.0), (100.0, 100.0), (0.0, 100.0), (0.0, 0.0)], "line")
    whole = beside("Four", [Scene(f"{k}", 100.0, 100.0, [rim]) for k in range(4)], 2, [("c0", "one", False)])
    boxes = [
        (min(x for x, _ in part.points), min(y for _, y in part.points))
        for part in whole.parts
        if isinstance(part, Line) and part.ink == "line"
    ]
    assert len({x for x, _ in boxes}) == len({y for _, y in boxes}) == 2
    assert max(x for x, _ in boxes) - min(x for x, _ in boxes) > 100
    assert all(x + 100 <= whole.width and y + 100 <= whole.height for x, y in boxes)


def test_colours_come_from_the_reports_style_sheet_by_day_and_by_night() -> None:
    day, night = palette(), palette(dark=True)
    assert set(day) == set(night) == set(INKS)
    assert all(day[ink] != night[ink] for ink in ("ink", "card", "c0", "s3"))
    assert len({day[f"c{label}"] for label in range(CLASSES)}) == CLASSES


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
