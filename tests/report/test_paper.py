"""The paper's numbers: transcribed as printed, found by the rows that presets name."""

import tomllib
from importlib import resources

import pytest

from maxmahal.report.tables import PaperNumber, paper_number
from maxmahal.train import load_settings
from maxmahal.train.presets import preset_names

TABLES = tomllib.loads((resources.files("maxmahal") / "report" / "assets" / "paper.toml").read_text(encoding="utf-8"))
PRESETS = [(name, table) for name in preset_names() if (table := load_settings(name).table)]


@pytest.mark.parametrize(("name", "table"), PRESETS)
def test_every_row_that_a_preset_names_is_in_the_paper(name: str, table: str) -> None:
    places = [place.strip() for place in table.split(";")]
    assert [number.source for number in paper_number(table, "clean")] == places
    assert paper_number(table, "pgd10-un-8")


def test_there_are_presets_with_a_row() -> None:
    assert len(PRESETS) >= 19


@pytest.mark.parametrize(
    ("table", "stage", "source", "text"),
    [
        ("Table 1, MMC-10", "pgd10-un-8", "Table 1, MMC-10", "36.0"),
        ("Table 1, MMC-10 (rand)", "pgd50-un-16", "Table 1, MMC-10 (rand)", "11.6"),
        ("Table 1, L-GM", "pgd10-tar-16", "Table 1, L-GM", "26.0"),
        ("Table 1, AT tar 10 (SCE)", "pgd10-tar-8", "Table 1, AT tar 10 (SCE)", "70.6"),
        ("Table 1, AT un 10 (MMC-10)", "pgd50-tar-16", "Table 1, AT un 10 (MMC-10)", "39.9"),
        ("Table 1, AT tar 10 (MMC-10)", "cw-tar", "Table 2, AT tar 10 (MMC-10)", "1.91"),
        ("Table 1, MMLDA", "cw-un", "Table 2, MMLDA", "0.10"),
        ("Table 1, Center loss", "spsa-un-16", "Table 2, Center loss", "2.0"),
        ("Table 1, L-GM", "spsa-tar-8", "Table 2, L-GM", "61.9"),
        ("Table 1, SCE", "noise", "Table 2, SCE", "52.0"),
        ("Table 1, MMC-10", "rotation", "Table 2, MMC-10", "87.2"),
        ("Table 1, MMC-10", "spsa-un-8-8192", "Table 3, MMC-10", "37.0"),
        ("Table 4, MMLDA", "cw-un", "Table 4, MMLDA", "0.050"),
        ("Table 4, MMC-10", "spsa-un-8", "Table 4, MMC-10", "15.8"),
        ("Table 5, CIFAR-100, MMC (Res.110)", "pgd50-un-16", "Table 5, CIFAR-100, MMC (Res.110)", "10.5"),
    ],
)
def test_spot_values(table: str, stage: str, source: str, text: str) -> None:
    assert paper_number(table, stage) == [PaperNumber(source, text, float(text), False)]


def test_a_bound_stays_a_bound() -> None:
    assert paper_number("Table 1, SCE", "pgd50-tar-8") == [PaperNumber("Table 1, SCE", "<= 1", 1.0, True)]
    assert paper_number("Table 1, SCE", "spsa-un-16") == [PaperNumber("Table 2, SCE", "<= 1", 1.0, True)]


def test_tables_that_contradict_each_other_are_both_quoted() -> None:
    both = "Table 1, SCE; Table 5, CIFAR-10, SCE (Res.32)"
    assert [number.text for number in paper_number(both, "clean")] == ["92.9", "93.6"]
    assert [number.text for number in paper_number(both, "pgd10-un-16")] == ["2.9", "2.7"]
    assert [number.text for number in paper_number(both, "pgd50-un-16")] == ["2.6", "2.9"]
    assert [number.text for number in paper_number("Table 1, MMC-10", "spsa-un-8")] == ["56.9", "57.0"]


def test_what_the_paper_does_not_say_is_no_number() -> None:
    assert paper_number("", "clean") == []
    assert paper_number("Table 1, MMC-10", "apgd-margin") == []
    assert paper_number("Table 1, Nothing", "clean") == []
    assert paper_number("Table 9, MMC-10", "clean") == []
    assert paper_number("Table 1, MMC-10 (rand)", "noise") == []


def test_every_cell_is_typed_once_and_every_row_is_whole() -> None:
    for name, table in TABLES.items():
        assert len(set(table["stages"])) == len(table["stages"]), name
        for row, cells in table["rows"].items():
            assert len(cells) == len(table["stages"]), (name, row)
            for stage, text in zip(table["stages"], cells, strict=True):
                found = [each for each in paper_number(f"{name}, {row}", stage) if each.source == f"{name}, {row}"]
                assert [number.text for number in found] == [text]
    assert {name: len(table["rows"]) for name, table in TABLES.items()} == {
        "Table 1": 10,
        "Table 2": 9,
        "Table 3": 1,
        "Table 4": 5,
        "Table 5": 8,
    }
