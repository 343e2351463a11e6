import pytest
from jinja2 import UndefinedError

from maxmahal.records.statistics import Comparison, Rate
from paper.pages import text


def test_a_table_aligns_words_left_and_numbers_right_and_escapes_pipes():
    table = text.markdown_table(["model", "what", "clean"], [["a|b", "c", "1.0"]], words=2)
    assert table.splitlines() == ["| model | what | clean |", "|---|---|---:|", "| a\\|b | c | 1.0 |"]


@pytest.mark.parametrize(
    ("rate", "cell", "full"),
    [
        (Rate(4372.0, 10000), "43.7", "43.7 % [42.7, 44.7]"),
        (Rate(0.0, 10000), "0.0 (≤ 0.04)", "0.0 % (≤ 0.04 %)"),
        (Rate(3.0, 10000), "0.03 (3 of 10,000)", "0.03 % [0.01, 0.09] (3 of 10,000)"),
        (Rate(100.0, 100), "100.0 [96.4, 100.0]", "100.0 % [96.4, 100.0]"),
    ],
)
def test_rates_show_what_one_digit_would_hide(rate, cell, full):
    assert (text.rate_cell(rate), text.rate_text(rate)) == (cell, full)


def test_differences_and_paired_tests():
    assert text.difference(0.24) == "+0.2"
    assert text.difference(-1.25, (-3.0, 0.5)) == "−1.3 [−3.0, +0.5]"
    assert [text.difference(size) for size in (-0.04, 0.004, 0.0, -1e-9)] == ["−0.04", "+0.004", "+0.0", "+0.0"]
    assert text.paired_test(Comparison(362, 338, 10000)) == "p = 0.385, 362 to 338 of 10,000 images"
    assert text.paired_test(Comparison(5, 0, 10), 0.0001) == "p < 0.001, 5 to 0 of 10 images"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.25, "0.3"), (0.35, "0.4"), (-0.25, "-0.3"), (43.65, "43.7"), (43.75, "43.8"), (43.649, "43.6")],
)
def test_halves_are_rounded_away_from_zero(value, shown):
    assert text.rounded(value) == shown
    assert text.rate_cell(Rate(9255.0, 10000)) == "92.6"


def test_lists_and_counts():
    assert [text.listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
    assert [text.plural(count, "seed") for count in (0, 1, 1000)] == ["0 seeds", "1 seed", "1,000 seeds"]


def test_a_template_needs_every_value():
    assert text.render("blocks/speed", table="| a |") == "| a |\n"
    with pytest.raises(UndefinedError, match="table"):
        text.render("blocks/speed")
