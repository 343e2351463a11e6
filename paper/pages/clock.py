"""paper/results/clock.md: robust ResNet-18 against the clock, from summaries and one benchmark."""

import json
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from maxmahal.records.statistics import Rate
from paper import ROOT
from paper.pages import clock_trials, training
from paper.pages.clock_figures import clock_figures
from paper.pages.clock_trials import KINDS, STRICT, TUNE, Column, Trial, columns_of, read_trials
from paper.pages.compare import Budget, at_budget
from paper.pages.models import CLOCK
from paper.pages.results import STRONG, Measured, Published, read_published
from paper.pages.study import spread
from paper.pages.text import rate_cell, render
from paper.pages.training import Edge, edge_of, is_finished, train_setting
from paper.summaries import RunSummary

OURS, THEIRS = ("mmc", "mmc-mixed"), ("sce", "trades")
ANCHORS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["anchor"]
BENCHMARK = ROOT / "benchmarks" / "results" / "train_resnet18_engine_cuda.json"
_SCORES = ("validation_pgd10", "validation_accuracy")
_TUNED = ("lr", "weight_decay")


def at_sign(found: Mapping[Column, Budget], sign: int) -> dict[Column, Budget]:
    """Budgets of the presets' own attack with an interval above (1), around (0) or below zero (−1), shortest first."""
    return {column: found[column] for column in sorted(found) if not column.end and found[column].robust.sign == sign}


def end_of_lead(found: Mapping[Column, Budget]) -> Column | None:
    """The first budget whose interval includes zero or is below it; None if there is none."""
    return min([*at_sign(found, 0), *at_sign(found, -1)], default=None)


def best_kinds(trials: Mapping[str, Trial], column: Column) -> tuple[str, str] | None:
    """The more robust of SCE and TRADES, and that of the kinds with MMC-10 which were measured; None without these."""
    known = {kind: trials[name] for kind in KINDS if (name := column.model(kind)) in trials}
    means = {kind: trial.mean(STRICT) for kind, trial in known.items() if trial.worst[STRICT]}
    ours = [kind for kind in OURS if kind in means]
    if not ours or not {*THEIRS} <= {*means}:
        return None
    return max(THEIRS, key=means.__getitem__), max(ours, key=means.__getitem__)


class Tuning(NamedTuple):
    """The trials of one kind, the best of them, and whether its settings are the highest or the lowest tried."""

    runs: list[RunSummary]
    best: RunSummary | None
    edges: dict[str, Edge | None]


def tuning(results: Published, kind: str) -> Tuning:
    """The best by validation PGD-10 after the last epoch, ties by validation accuracy; what diverged was tried."""
    runs = [run for run in results.runs if run.name.startswith(f"{TUNE}{kind}-lr")]
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
    pairs = {"MMC-10 − SCE": dict.fromkeys(columns, (THEIRS[0], OURS[0])), "best MMC-10 − best other": bests}
    suite = next((suite for suite in STRONG if any(each.worst[suite] for each in trials.values())), "")
    attacked = [name for name, each in trials.items() if suite and each.worst[suite]]
    page = render(
        "clock",
        gaps={
            title: {column: gap for column in kinds if (gap := at_budget(results, *map(column.model, kinds[column])))}
            for title, kinds in pairs.items()
        },
        at_sign=at_sign,
        end_of_lead=end_of_lead,
        bests=bests,
        top=max(attacked, key=lambda name: trials[name].mean(suite), default=None),
        suite=suite,
        trials=trials,
        columns=columns,
        cell=cell,
        clock=clock_trials,
        training=training,
        results=results,
        tuning={kind: found for kind in KINDS if (found := tuning(results, kind)).runs},
        score=score,
        anchors=ANCHORS,
        benchmark=rates,
        figures=drawn,
    )
    return {"clock.md": page, **{f"figures/{name}": text for name, text in drawn.items()}}
