"""Drawings: valid SVG in the style sheet's colours, arranged without overlaps."""

import xml.etree.ElementTree as ET

import pytest

from maxmahal.report.chart import (
    CLASSES,
    Area,
    Axis,
    Chart,
    Dots,
    Drawing,
    Key,
    Line,
    Text,
    arranged,
    heat_map,
    palette,
)

SVG = "{http://www.w3.org/2000/svg}"


def test_text_is_escaped() -> None:
    root = ET.fromstring(Drawing("<a> & b", 10.0, 10.0, [Text(0.0, 5.0, "x < y & z")]).file())
    assert root.find(f"{SVG}title").text == "<a> & b"  # type: ignore[union-attr]
    assert root.find(f"{SVG}text").text == "x < y & z"  # type: ignore[union-attr]


def test_a_file_brings_the_colours_it_uses_for_light_and_dark() -> None:
    text = Drawing("Dots", 10.0, 10.0, [Dots([(1.0, 2.0)], "c3")]).file()
    light, dark = text.split("@media (prefers-color-scheme:dark)")
    assert f"--c3:{palette()['c3']}" in light
    assert f"--c3:{palette(dark=True)['c3']}" in dark
    assert "--c4" not in text
    assert 'stroke="var(--c3)"' in text


def test_themes_have_the_same_colours_and_classes_differ() -> None:
    day, night = palette(), palette(dark=True)
    assert set(day) == set(night)
    assert all(day[ink] != night[ink] for ink in ("ink", "card", "c0", "s3"))
    assert len({day[f"c{label}"] for label in range(CLASSES)}) == CLASSES


def test_drawings_do_not_overlap_side_by_side() -> None:
    rim = Line([(0.0, 0.0), (100.0, 0.0), (100.0, 100.0), (0.0, 100.0), (0.0, 0.0)], "line")
    whole = arranged("Four", [Drawing(f"{k}", 100.0, 100.0, [rim]) for k in range(4)], 2, [Key("c0", "one")], "A note.")
    boxes = [
        (min(x for x, _ in part.points), min(y for _, y in part.points))
        for part in whole.parts
        if isinstance(part, Line) and part.ink == "line"
    ]
    assert len({x for x, _ in boxes}) == len({y for _, y in boxes}) == 2
    assert max(x for x, _ in boxes) - min(x for x, _ in boxes) > 100
    assert all(x + 100 <= whole.width and y + 100 <= whole.height for x, y in boxes)
    texts = {part.text: part.y for part in whole.parts if isinstance(part, Text)}
    assert texts["Four"] < texts["0"] < texts["2"] < texts["one"] < texts["A note."] < whole.height


def test_a_single_drawing_has_its_title_once() -> None:
    whole = arranged("One", [Drawing("One", 100.0, 100.0)])
    assert [part.text for part in whole.parts if isinstance(part, Text)] == ["One"]


def test_values_are_where_the_axes_say() -> None:
    chart = Chart("Chart", Axis("x", 0.0, 10.0), Axis("y", 1.0, 100.0, "log"), width=266.0, height=258.0)
    assert chart.place(0.0, 1.0) == (52.0, 212.0)
    assert chart.place(5.0, 10.0) == (152.0, 112.0)
    chart.line([0.0, 10.0], [1.0, 100.0], 2, steps=True)
    assert chart.parts[-1] == Line([(52.0, 212.0), (252.0, 212.0), (252.0, 12.0)], "s2")


def test_axes_around_values_leave_room_and_skip_what_is_not_finite() -> None:
    assert Axis.around("x", [1.0, float("inf"), 3.0]).place(2.0) == pytest.approx(0.5)
    assert Axis.around("x", [0.0, 1.0, 100.0], "log").place(10.0) == pytest.approx(0.5)


def test_a_heat_map_says_what_was_not_run() -> None:
    drawing = heat_map("Map", ["a"], ["b", "c"], [[0.5, None]])
    assert [part.text for part in drawing.parts if isinstance(part, Text)][-2:] == ["50.0", "not run"]
    assert [part.opacity for part in drawing.parts if isinstance(part, Area)] == [1.0, 0.5, 1.0]
