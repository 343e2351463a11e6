"""paper/results/clock.md: robust ResNet-18 against the clock, from summaries and one benchmark."""

import json
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from maxmahal.records.statistics import Rate
from paper import ROOT
from paper.pages import clock_trials, training
from paper.pages.clock_figures import clock_figures
from paper.pages.clock_trials import KINDS, STRICT, TUNE, Column, Trial, columns_of, read_trials
from paper.pages.compare import Budget, Crossed, at_budget, clean_gaps, crossed, seed_gaps, worst_gaps
from paper.pages.models import CLOCK
from paper.pages.results import STRONG, Measured, Published, read_published
from paper.pages.study import spread
from paper.pages.text import rate_cell, render
from paper.pages.training import Edge, edge_of, is_finished, train_setting
from paper.summaries import RunSummary

OURS, THEIRS = ("mmc", "mmc-mixed"), ("sce", "sce-mixed", "trades")
ANCHORS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["anchor"]
BENCHMARK = ROOT / "benchmarks" / "results" / "train_resnet18_engine_cuda.json"
_SCORES = ("validation_pgd10", "validation_accuracy")
_TUNED = ("lr", "weight_decay")


def at_sign(found: Mapping[Column, Budget], sign: int) -> dict[Column, Budget]:
    """Budgets of the presets' own attack with an interval above (1), around (0) or below zero (−1), shortest first."""
    return {column: found[column] for column in sorted(found) if not column.end and found[column].robust.sign == sign}


def best_kinds(trials: Mapping[str, Trial], column: Column) -> tuple[str, str] | None:
    """The most robust kind without MMC-10, if all were measured, and the most robust measured one with it."""
    known = {kind: trials[name] for kind in KINDS if (name := column.model(kind)) in trials}
    means = {kind: trial.mean(STRICT) for kind, trial in known.items() if trial.worst[STRICT]}
    ours = [kind for kind in OURS if kind in means]
    if not ours or not {*THEIRS} <= {*means}:
        return None
    return max(THEIRS, key=means.__getitem__), max(ours, key=means.__getitem__)


def gaps(results: Published, kinds: Mapping[Column, tuple[str, str]]) -> dict[Column, Budget]:
    """The second kind − the first at each budget; how much seeds vary is estimated over all budgets together."""
    pairs = {column: [column.model(kind) for kind in both] for column, both in kinds.items()}
    found = {column: each for column, both in pairs.items() if (each := at_budget(results, *both))}
    robust, clean = {}, {}
    for column, each in found.items():
        base, other = pairs[column]
        robust[column] = seed_gaps(results, other, base, partial(worst_gaps, suites=(each.suite,)))
        clean[column] = seed_gaps(results, other, base, clean_gaps)
    return {
        column: replace(each, robust=over_budgets(robust, column) or each.robust, clean=over_budgets(clean, column))
        for column, each in found.items()
    }


def over_budgets(values: Mapping[Column, list[Float[np.ndarray, " n"]]], column: Column) -> Crossed | None:
    """The mean difference at one budget; the seeds of the others say how much seeds vary."""
    return crossed(values[column], [each for other, each in values.items() if other != column])


class Tuning(NamedTuple):
    """Trials of one kind and length, the best of them, and whether its settings are the highest or the lowest tried."""

    runs: list[RunSummary]
    best: RunSummary | None
    edges: dict[str, Edge | None]


def tunings(results: Published) -> list[tuple[str, Tuning]]:
    """By kind, the shortest trials first."""
    found = []
    for kind in KINDS:
        name = re.compile(rf"{TUNE}{kind}(-\d+)?-lr")
        runs = [run for run in results.runs if name.match(run.name)]
        lengths = sorted({train_setting(run, "epochs") for run in runs})
        found += [(kind, tuning([run for run in runs if train_setting(run, "epochs") == length])) for length in lengths]
    return found


def tuning(runs: list[RunSummary]) -> Tuning:
    """The best by validation PGD-10 after the last epoch, ties by validation accuracy; what diverged was tried."""
    scored = [run for run in runs if is_finished(run) and all(score(run, key) for key in _SCORES)]
    best = max(scored, key=lambda run: [run.epochs[-1][key] for key in _SCORES], default=None)
    tried = {key: [train_setting(run, key) for run in runs if run in scored or run.diverged] for key in _TUNED}
    edges = {key: edge_of(train_setting(best, key), tried[key]) for key in _TUNED} if best else {}
    return Tuning(runs, best, edges)


def score(run: RunSummary, key: str) -> Rate | None:
    """On the held-out images after the last epoch; None if not measured."""
    images, share = run.settings.get("data", {}).get("validation"), run.epochs[-1].get(key) if run.epochs else None
    return Rate(float(round(images * share)), images) if images and share is not None else None


def cell(found: Collection[Measured]) -> str:
    """The mean over seeds, ± their standard deviation if there are several; a dash for none."""
    rates = [each.rate for each in found if each.rate is not None]
    if len(rates) > 1 and any(rate.count for rate in rates):
        return spread(100 * rate.value for rate in rates)
    return rate_cell(rates[0]) if rates else "–"


def clock_pages(folder: Path, benchmark: Path = BENCHMARK) -> dict[str, str]:
    """The page and its figures by their places under the folder of results; none if nothing was collected."""
    results = read_published(folder, f"{CLOCK}*")
    if not results.runs and not results.evaluations:
        return {}
    rates = json.loads(benchmark.read_text(encoding="utf-8"))
    trials = read_trials(results, rates)
    columns, drawn = columns_of(trials), clock_figures(trials, ANCHORS)
    bests = {column: kinds for column in columns if (kinds := best_kinds(trials, column)) is not None}
    pairs = {
        "MMC-10 − SCE": dict.fromkeys(columns, ("sce", "mmc")),
        "MMC-10 − SCE, both with clean images": dict.fromkeys(columns, ("sce-mixed", "mmc-mixed")),
        "best with MMC-10 − best other": bests,
    }
    suite = next((suite for suite in STRONG if any(each.worst[suite] for each in trials.values())), "")
    images = {name: min(found.samples for found in each.worst[suite].values())
              for name, each in trials.items() if suite and each.worst[suite]}  # fmt: skip
    widest = [name for name, count in images.items() if count == max(images.values())]
    page = render(
        "clock",
        gaps={title: gaps(results, kinds) for title, kinds in pairs.items()},
        at_sign=at_sign,
        bests=bests,
        top=max(widest, key=lambda name: trials[name].mean(suite), default=None),
        suite=suite,
        trials=trials,
        columns=columns,
        cell=cell,
        clock=clock_trials,
        training=training,
        results=results,
        tunings=tunings(results),
        score=score,
        anchors=ANCHORS,
        benchmark=rates,
        figures=drawn,
    )
    return {"clock.md": page, **{f"figures/{name}": text for name, text in drawn.items()}}
