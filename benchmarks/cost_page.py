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
    """Of each suite: compiling, fingerprints and diagnostics, and what chunks that are not full cost."""

    @classmethod
    def fit(cls, runs: dict[str, Any]) -> "CostModel":
        """Passes from the large run of quick, reading from the difference of two, the start from a run per suite.

        A pass costs what it costs in the stage where it is cheapest: the other stages compile, too.
        """
        stages = runs[LARGE]["stages"]
        by_gradients = [stage for stage in stages if stage["backward"]]
        by_queries = [stage for stage in stages[1:] if not stage["backward"]]
        query = min(stage["seconds"] / stage["forward"] for stage in by_queries)
        gradient = min(
            (stage["seconds"] - query * (stage["forward"] - stage["backward"])) / stage["backward"]
            for stage in by_gradients
        )
        more = runs[LARGE]["images"] - runs[SMALL]["images"]
        reading = max((beside_stages(runs[LARGE]) - beside_stages(runs[SMALL])) / more, 0.0)
        model = cls(reading, gradient, query, {})
        for run in (SMALL, *(name for name in runs if not name.startswith("quick"))):
            rest = beside_stages(runs[run]) - runs[run]["images"] * reading
            model.starts[suite_of(run)] = rest + model.beside_passes(runs[run])
        return model

    def passes(self, run: dict[str, Any]) -> float:
        """Seconds of the passes of a run."""
        gradients = sum(stage["backward"] for stage in run["stages"])
        others = sum(stage["forward"] for stage in run["stages"]) - gradients
        return float(gradients * self.gradient + others * self.query)

    def beside_passes(self, run: dict[str, Any]) -> float:
        """Seconds of the stages of a run that its passes do not explain."""
        return stage_seconds(run) - self.passes(run)

    def predict(self, run: dict[str, Any]) -> float:
        """Seconds of a run, from its passes."""
        return self.starts[suite_of(run["run"])] + float(run["images"]) * self.reading + self.passes(run)

    def hours(self, run: dict[str, Any], images: int, gpus: int, *, least: bool = False) -> float:
        """Of so many images on so many GPUs, each of which takes whole chunks."""
        seconds = math.ceil(images / gpus / CHUNK) * CHUNK * self.per_image(run, least=least)
        return (self.starts[suite_of(run["run"])] + seconds) / 3600

    def per_image(self, run: dict[str, Any], *, least: bool = False) -> float:
        """Measured seconds of one more image; at ``least``, those of reading and passes alone."""
        return self.reading + (self.passes(run) if least else stage_seconds(run)) / float(run["images"])


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
