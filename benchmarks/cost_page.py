"""Write docs/cost.md from results/imagenet_size_cuda.json: the measured cost per image, a model of it, and its check.

python benchmarks/cost_page.py
"""

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from maxmahal.evaluate.durations import duration

HERE = Path(__file__).resolve().parent
MEASURED = HERE / "results" / "imagenet_size_cuda.json"
PAGE = HERE.parent / "docs" / "cost.md"
SMALL, LARGE = "quick:tar:500", "quick:tar:5000"
MILLION, GPUS, CHUNK = 1_000_000, (8, 64, 512), 500
PRICE = 3.0  # US dollars per hour of a GPU: an assumption, to be replaced by the reader's own


@dataclass(frozen=True)
class CostModel:
    """seconds = start + images * reading + gradients * gradient + queries * query."""

    reading: float
    gradient: float
    query: float
    starts: dict[str, float]
    """Of each suite: compiling, fingerprints and diagnostics, whatever the number of images."""

    @classmethod
    def fit(cls, runs: dict[str, Any]) -> "CostModel":
        """Passes from the large run of quick, reading from the difference of two, the start from a run per suite."""
        stages = runs[LARGE]["stages"]
        by_gradients = [stage for stage in stages if stage["backward"]]
        by_queries = [stage for stage in stages[1:] if not stage["backward"]]
        query = sum(stage["seconds"] for stage in by_queries) / sum(stage["forward"] for stage in by_queries)
        gradient = sum(stage["seconds"] - query * (stage["forward"] - stage["backward"]) for stage in by_gradients)
        gradient /= sum(stage["backward"] for stage in by_gradients)
        more = runs[LARGE]["images"] - runs[SMALL]["images"]
        reading = max((beside_stages(runs[LARGE]) - beside_stages(runs[SMALL])) / more, 0.0)
        starts = {}
        for run in (SMALL, *(name for name in runs if not name.startswith("quick"))):
            starts[suite_of(run)] = beside_stages(runs[run]) - runs[run]["images"] * reading
        return cls(reading, gradient, query, starts)

    def passes(self, stage: dict[str, Any]) -> float:
        """Seconds of the passes of a stage."""
        return float(stage["backward"] * self.gradient + (stage["forward"] - stage["backward"]) * self.query)

    def predict(self, run: dict[str, Any]) -> float:
        """Seconds of a run, from its passes."""
        start = self.starts[suite_of(run["run"])]
        return start + float(run["images"]) * self.reading + sum(self.passes(stage) for stage in run["stages"])

    def hours(self, run: dict[str, Any], images: int, gpus: int) -> float:
        """Of so many images on so many GPUs, each of which takes whole chunks; at the measured seconds per image."""
        chunks = math.ceil(images / gpus / CHUNK)
        return (self.starts[suite_of(run["run"])] + chunks * CHUNK * self.per_image(run)) / 3600

    def per_image(self, run: dict[str, Any]) -> float:
        """Measured seconds of one more image."""
        return self.reading + stage_seconds(run) / float(run["images"])


def suite_of(run: str) -> str:
    """Such as "quick" of "quick:tar:500"."""
    return run.partition(":")[0]


def stage_seconds(run: dict[str, Any]) -> float:
    """Of all stages."""
    return sum(float(stage["seconds"]) for stage in run["stages"])


def beside_stages(run: dict[str, Any]) -> float:
    """Reading, hashing, compiling, diagnostics."""
    return float(run["seconds"]) - stage_seconds(run)


def page(measured: dict[str, Any] | None) -> str:
    """The page in Markdown; without figures if nothing was measured."""
    runs = {run["run"]: run for run in measured["runs"]} if measured else {}
    model = CostModel.fit(runs) if measured else None
    largest = {suite_of(name): run for name, run in runs.items()}  # the last of each suite
    template = Environment(
        loader=FileSystemLoader(HERE), undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True,
        autoescape=False,
    ).get_template("cost.md.j2")  # fmt: skip
    settings = {"million": MILLION, "gpus": GPUS, "chunk": CHUNK, "price": PRICE, "duration": duration}
    return template.render(measured=measured, runs=runs, model=model, largest=largest, **settings)


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measured", type=Path, default=MEASURED)
    parser.add_argument("--page", type=Path, default=PAGE)
    given = parser.parse_args()
    measured = json.loads(given.measured.read_text(encoding="utf-8")) if given.measured.exists() else None
    given.page.write_text(page(measured), encoding="utf-8")


if __name__ == "__main__":
    main()
