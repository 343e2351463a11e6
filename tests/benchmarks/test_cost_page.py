"""The page about cost: its model recovers the costs that made-up runs have, and it is written from the results."""

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
START, READING, GRADIENT, QUERY, COMPILING = 20.0, 0.002, 0.004, 0.001, 30.0


@pytest.fixture
def cost(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if not BENCHMARKS.exists():
        pytest.skip("a copy of the tree without its benchmarks")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("cost_page")


def run(name: str, extra: float = 0.0) -> dict[str, Any]:
    images = int(name.rpartition(":")[2])
    passes = {"clean": (images, 0), "compiled": (20 * images, 18 * images)}
    passes |= {"APGD": (10 * images, 9 * images), "Square": (60 * images, 0)}
    stages = [
        {"title": title, "samples": images, "forward": forward, "backward": backward, "queries": forward,
         "seconds": GRADIENT * backward + QUERY * (forward - backward) + COMPILING * (title == "compiled")}
        for title, (forward, backward) in passes.items()
    ]  # fmt: skip
    seconds = START + extra + images * READING + sum(float(str(stage["seconds"])) for stage in stages)
    memory = {"images_per_second": images / seconds, "host_gib": 3.0, "gpu_gib": 9.0}
    return {"run": name, "images": images, "seconds": seconds, "robust": 0.6, "stages": stages, **memory}


RUNS = [run("quick:tar:500"), run("quick:tar:5000"), run("quick:folder:5000"), run("strict:folder:200", 60.0)]


def test_the_model_recovers_the_costs(cost: ModuleType) -> None:
    model = cost.CostModel.fit({each["run"]: each for each in RUNS})
    assert (model.reading, model.gradient, model.query) == pytest.approx((READING, GRADIENT, QUERY))
    assert model.starts == pytest.approx({"quick": START + COMPILING, "strict": START + COMPILING + 60})
    assert model.predict(RUNS[2]) == pytest.approx(RUNS[2]["seconds"])
    for gpus, images in ((1, 5000), (9, 1000)):  # in whole chunks
        seconds = run(f"strict:folder:{images}", 60.0)["seconds"]
        assert model.hours(RUNS[3], 5000, gpus, least=True) * 3600 == pytest.approx(seconds)
        assert model.hours(RUNS[3], 5000, gpus) * 3600 == pytest.approx(seconds + images * COMPILING / 200)


def test_the_page_has_a_row_for_each_suite_and_stage(cost: ModuleType) -> None:
    text = cost.page({"device": "a GPU", "side": 224, "runs": RUNS})
    assert text.count("| `strict` |") == 5
    assert "| quick, folder, 5000 | 920 s | 10.0 s | 860 s | 30 s | 920 s | 1.00 |" in text
    assert "| strict, folder, 200 | 145 s | 0.4 s | 34 s | 30 s | - | - |" in text


def test_the_page_is_that_of_the_results(cost: ModuleType) -> None:
    if not cost.PAGE.exists():
        pytest.skip("a copy of the tree without its documentation")
    measured = json.loads(cost.MEASURED.read_text(encoding="utf-8")) if cost.MEASURED.exists() else None
    assert cost.PAGE.read_text(encoding="utf-8") == cost.page(measured), "run python benchmarks/cost_page.py"
