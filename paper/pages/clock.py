"""paper/results/clock.md: robust ResNet-18 against the clock, from summaries and one benchmark."""

import json
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from maxmahal.records.statistics import Rate
from paper import ROOT
from paper.pages.clock_figures import clock_figures
from paper.pages.clock_trials import KINDS, STRICT, TUNE, Column, Trial, columns_of, presets, read_trials, recipe
from paper.pages.compare import Budget, at_budget
from paper.pages.models import CLOCK
from paper.pages.results import STRONG, Measured, Published, read_published
from paper.pages.study import spread
from paper.pages.text import rate_cell, render
from paper.pages.training import edge_of, is_finished, state_of, train_setting
from paper.summaries import RunSummary

OURS, THEIRS = ("mmc", "mmc-mixed"), ("sce", "trades")
ANCHORS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["anchor"]
BENCHMARK = ROOT / "benchmarks" / "results" / "train_resnet18_engine_cuda.json"
_SCORES = ("validation_pgd10", "validation_accuracy")
_TUNED = {"lr": "learning rate", "weight_decay": "weight decay"}


def at_sign(found: Mapping[Column, Budget], sign: int) -> dict[Column, Budget]:
    """The budgets whose interval is above zero (1), below it (−1), or includes it (0), the shortest first.

    Only those with the presets' own attack.
    """
    return {column: found[column] for column in sorted(found) if not column.end and found[column].robust.sign == sign}


def end_of_lead(found: Mapping[Column, Budget]) -> Column | None:
    """The first budget whose interval includes zero or is below it; None if there is none."""
    return min([*at_sign(found, 0), *at_sign(found, -1)], default=None)


def best_kind(trials: Mapping[str, Trial], column: Column, kinds: Sequence[str]) -> str:
    """The kind with the highest mean under strict; the first if none was measured."""
    found = {kind: trials[name] for kind in kinds if (name := column.model(kind)) in trials}
    means = {kind: trial.mean(STRICT) for kind, trial in found.items() if trial.worst[STRICT]}
    return max(means, key=lambda kind: means[kind], default=kinds[0])


class Tuning(NamedTuple):
    """The trials of one kind, the best of them, and which of its values are the highest or the lowest tried."""

    kind: str
    runs: list[RunSummary]
    chosen: RunSummary | None
    edges: list[str]


def tuning(results: Published) -> list[Tuning]:
    """Of each kind with trials: the best by validation PGD-10 in the last epoch, ties by validation accuracy."""
    found = []
    for kind in KINDS:
        runs = [run for run in results.runs if run.name.startswith(f"{TUNE}{kind}-lr")]
        scored = [run for run in runs if is_finished(run) and all(score(run, key) for key in _SCORES)]
        best = sorted(scored, key=lambda run: [run.epochs[-1][key] for key in _SCORES])[-1:]
        tried = [run for run in runs if run in scored or run.diverged]
        edges = [
            f"{edge} {words}"
            for key, words in _TUNED.items()
            for run in best
            if (edge := edge_of(train_setting(run, key), [train_setting(each, key) for each in tried]))
        ]
        found += [Tuning(kind, runs, best[0] if best else None, edges)] if runs else []
    return found


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
    bests = {column: (best_kind(trials, column, THEIRS), best_kind(trials, column, OURS)) for column in columns}
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
        kinds=KINDS,
        cell=cell,
        recipe=recipe,
        results=results,
        state_of=state_of,
        tuning=tuning(results),
        score=score,
        setting=train_setting,
        presets=presets(),
        anchors=ANCHORS,
        benchmark=rates,
        figures=drawn,
    )
    return {"clock.md": page, **{f"figures/{name}": text for name, text in drawn.items()}}
