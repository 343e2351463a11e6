"""Names that tell evaluations apart, as tables, the page and --model use them."""

import sys
from pathlib import Path

import pytest

from maxmahal.errors import ArgumentError
from maxmahal.records.export import select
from maxmahal.records.types import unique_names

sys.path.append(str(Path(__file__).resolve().parent.parent / "report"))  # its builder serves both folders
from small_evaluations import make_evaluation


def test_a_name_that_is_alone_stays_as_it_is() -> None:
    assert unique_names([make_evaluation(), make_evaluation(name="sce", samples=30)]) == ["mmc", "sce"]
    assert unique_names([]) == []


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"samples": 30}, ["mmc (10 samples)", "mmc (30 samples)"]),
        ({"suite": "quick"}, ["mmc (standard)", "mmc (quick)"]),
        ({"suite_version": 2}, ["mmc (version 1)", "mmc (version 2)"]),
        ({"data": "mnist", "samples": 30}, ["mmc (cifar10, 10 samples)", "mmc (mnist, 30 samples)"]),
        ({"epsilon": "4/255"}, ["mmc (Linf 8/255)", "mmc (Linf 4/255)"]),
        ({"seed": 1}, ["mmc (seed 0)", "mmc (seed 1)"]),
        ({"model_fingerprint": "0123456789"}, ["mmc (m0)", "mmc (01234567)"]),
        ({}, ["mmc (no. 1)", "mmc (no. 2)"]),
    ],
)
def test_what_differs_tells_two_of_a_name_apart(change: dict[str, object], names: list[str]) -> None:
    assert unique_names([make_evaluation(), make_evaluation(**change)]) == names


def test_records_are_selected_by_either_name() -> None:
    several = [make_evaluation(), make_evaluation(samples=30), make_evaluation(name="sce")]
    assert [each.samples for each in select(several, model="mmc")] == [10, 30]
    assert [each.samples for each in select(several, model="mmc (30 samples)")] == [30]
    with pytest.raises(ArgumentError, match=r"no model 'mmc \(31 samples\)'; did you mean 'mmc \(30 samples\)'"):
        select(several, model="mmc (31 samples)")
