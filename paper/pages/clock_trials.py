"""Trainings of the page about the clock: recipe, seconds alone on a GPU, clean and robust accuracy over seeds."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Any, Literal, NamedTuple

from maxmahal.data.registry import SOURCES
from maxmahal.settings import to_table
from maxmahal.train import load_settings
from paper.pages.models import CLOCK
from paper.pages.results import STRONG, Measured, Published
from paper.pages.study_files import flatten
from paper.pages.training import train_setting
from paper.summaries import RunSummary

KINDS = {
    "sce": "AT (SCE)",
    "sce-mixed": "AT (SCE) with clean images",
    "trades": "TRADES (SCE)",
    "mmc": "AT (MMC-10)",
    "mmc-mixed": "AT (MMC-10) with clean images",
}
"""The kinds of training, as names of models and presets call them and as pages do."""
AUTOATTACK, STRICT = STRONG
TUNE = f"{CLOCK}tune-"
_GRID = re.compile(rf"{CLOCK}({'|'.join(KINDS)})-(\d+)(-pgd\d+)?")
_NO_RECIPE = {"about", "table", "data.validation", "data.test_limit"}
_NO_RECIPE |= {"train.epochs", "train.seed", "train.measure_every"}


class Column(NamedTuple):
    """A number of epochs, and how names of models end that were trained with another attack than the presets'."""

    epochs: int
    end: str

    def model(self, kind: str) -> str:
        """A model without its seed."""
        return f"{CLOCK}{kind}-{self.epochs}{self.end}"


class Seconds(NamedTuple):
    """The time of a training alone on its GPU, and how it is known."""

    value: float
    how: Literal["own", "benchmark", "estimated"]


@dataclass(frozen=True)
class Trial:
    """All seeds of one training."""

    settings: dict[str, Any]
    models: Sequence[str]
    runs: Sequence[RunSummary]
    seconds: Sequence[Seconds]
    clean: dict[str, Measured]
    worst: dict[str, dict[str, Measured]]
    """By suite and model, as far as measured."""

    def mean(self, suite: str) -> float:
        """The worst case in percent, over seeds."""
        return fmean(each.value for each in self.worst[suite].values())

    def mean_clean(self, suite: str) -> float:
        """Likewise, of the models that a suite saw."""
        return fmean(self.clean[name].value for name in self.worst[suite])

    @property
    def time(self) -> float:
        """Seconds alone on the GPU, over seeds."""
        return fmean(each.value for each in self.seconds)


def seconds_alone(run: RunSummary, benchmark: Mapping[str, Any]) -> Seconds:
    """Its own if it had the benchmark's GPU to itself, else its images over those per second in the benchmark.

    A step without a row is scaled from PGD-5 by passes through the network, which benchmarks/train_resnet18.py counts.
    """
    if run.sharing == 1 and run.gpu == benchmark["device"]:
        return Seconds(run.train_seconds, "own")
    method, rows = run.settings.get("method", {}), {row["name"]: row for row in benchmark["rows"]}
    steps, trades = method.get("steps", 0), method.get("name") == "trades"
    mixed, awp = method.get("mix", 1) < 1, bool(train_setting(run, "awp"))
    attack = "N-FGSM" if steps == 1 and method.get("noise") == 2 else f"{'TRADES' if trades else 'PGD'}-{steps}"
    taught = bool(method.get("distill"))
    kind = f"{attack}{' with clean images' * mixed}{' with AWP' * awp}{' with a teacher' * taught}"
    held_out = run.settings.get("data", {}).get("validation", 0)
    images = len(run.epochs) * (sum(SOURCES["cifar10"].class_counts["train"]) - held_out)
    if row := rows.get(f"engine {kind}, batch {train_setting(run, 'batch_size')}"):
        return Seconds(images / row["images_per_second"], "benchmark")
    row, passes = rows["engine PGD-5, batch 256"], 2 * steps + 3 + 3 * mixed + 3 * awp + 4 * trades + taught
    work = passes * benchmark["forward_gigaflop"] / row["gigaflop_per_image"]
    return Seconds(images * work / row["images_per_second"], "estimated")


def read_trials(results: Published, benchmark: Mapping[str, Any]) -> dict[str, Trial]:
    """Every training by its name without the seed: the grid by kind and epochs, then the others."""
    groups: dict[str, list[str]] = {}
    for name in sorted({each.name for each in results.evaluations} | {each.name for each in results.runs}):
        groups.setdefault(name.partition("-seed")[0], []).append(name)
    return {base: _trial(results, groups[base], benchmark) for base in sorted(groups, key=_place)}


def columns_of(trials: Mapping[str, Trial]) -> list[Column]:
    """The budgets of the grid, the shortest first."""
    return sorted({Column(int(found[2]), found[3] or "") for name in trials if (found := _GRID.fullmatch(name))})


def _place(base: str) -> tuple[object, ...]:
    found = _GRID.fullmatch(base)
    return (0, [*KINDS].index(found[1]), int(found[2]), base) if found else (1, 0, 0, base)


def _trial(results: Published, models: Sequence[str], benchmark: Mapping[str, Any]) -> Trial:
    runs = [run for name in models if (run := results.run(name)) is not None]
    return Trial(
        results.settings(models[0]),
        models,
        runs,
        [seconds_alone(run, benchmark) for run in runs if run.epochs],
        {name: found for name in models if (found := results.clean(name)) is not None},
        {suite: {name: found for name in models if (found := results.robust(name, suite))} for suite in STRONG},
    )


def recipe(settings: Mapping[str, Any]) -> str:
    """The preset that differs least, and what differs."""
    own = flatten(settings)
    changed = {kind: [key for key in own if own[key] != preset.get(key)] for kind, preset in presets().items()}
    kind = min(changed, key=lambda each: len(changed[each]))
    return ", ".join([KINDS[kind], *(f"`{key} = {own[key]}`" for key in changed[kind] if key not in _NO_RECIPE)])


@cache
def presets() -> dict[str, dict[str, Any]]:
    """Settings by kind, as "train.lr"."""
    return {kind: flatten(to_table(load_settings(f"cifar10-rn18-{kind}"))) for kind in KINDS}
