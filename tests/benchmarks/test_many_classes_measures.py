"""What the many-classes benchmark measures with: bounds, the largest cosine, the peak of memory, fits and picture."""

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from maxmahal.centers import center_statistics, max_mahalanobis_centers, random_centers

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def measures(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return benchmark("many_classes_measures", monkeypatch)


def benchmark(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if not BENCHMARKS.exists():
        pytest.skip("a copy of the tree without its benchmarks")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module(name)


def test_bounds_are_met_by_the_codes_that_are_known_to_meet_them(measures: ModuleType) -> None:
    assert measures.least_cosine(5, 8) == pytest.approx(-1 / 4)
    assert measures.least_cosine(16, 8) == 0
    # The codes of the Clebsch, Schläfli, Higman-Sims and McLaughlin graphs.
    sharp = {(16, 5): 1 / 5, (27, 6): 1 / 4, (100, 22): 1 / 11, (275, 22): 1 / 6}
    assert {size: measures.least_cosine(*size) for size in sharp} == pytest.approx(sharp)
    assert measures.least_cosine(28, 6) is None  # Levenshtein's next bound begins here


def test_the_largest_cosine_is_the_librarys(measures: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "BLOCK", 37)
    for centers in (random_centers(200, 8, seed=0), max_mahalanobis_centers(9, 8), max_mahalanobis_centers(150, 128)):
        expected = center_statistics(centers).largest_cosine
        assert measures.largest_cosine(centers) == pytest.approx(expected, abs=1e-6)


def test_the_peak_counts_what_is_alive_at_once(measures: ModuleType) -> None:
    cpu = torch.device("cpu")
    kept = torch.zeros(1000)

    def work() -> None:
        for _ in range(3):
            first = kept.repeat(100)
            second = first + 1
            del first, second

    assert 800_000 <= measures.peak_bytes(work, cpu) < 810_000


def test_the_picture_is_well_formed_and_shows_every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = benchmark("many_classes_figure", monkeypatch)
    sizes = (10, 1_000, 3_000, 10_000, 100_000)
    rows = [
        {"what": what, "num_classes": size, "ms": float(size), "peak_mb": 2.0, "held_mb": size / 7}
        for what in figure.NAMES
        for size in sizes
    ]

    def paths(some: list[dict[str, Any]]) -> int:
        drawn = figure.draw({"rows": some, "dim": 512, "batch_size": 128, "device": "a <device>"})
        return sum(each.tag.endswith("path") for each in ElementTree.fromstring(drawn).iter())

    assert paths(rows) > len(rows) * 3
    assert paths(rows) - paths(rows[:-1]) == 3  # one mark in each of three panels
    found = {(fit["what"], fit["of"]): fit["exponent"] for fit in figure.exponents(rows)}
    assert found["mmc_loss", "ms"] == pytest.approx(1)
    assert found["mmc_loss", "peak_mb"] == pytest.approx(0)
    assert found["centers", "held_mb"] == pytest.approx(1)
