"""How robust each model is, with intervals, and which differences between models are significant."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from textwrap import shorten
from typing import Literal

from maxmahal.errors import ArgumentError
from maxmahal.records.statistics import Comparison
from maxmahal.records.verdict import Verdict, compare, seed_spreads, unanswered
from maxmahal.report.chart import LINE, Axis, Chart, Line, Text
from maxmahal.report.layout import ModelGroup, ReportedModel, group_models
from maxmahal.report.wording import short, typeset

_LETTERS = 26  # of a model's name beside its mark: half of the chart


def verdict_values(models: Sequence[ReportedModel]) -> dict[str, object]:
    """Every model in one sentence and one bar."""
    every = [model.evaluation for model in models]
    # What each suite is, so that a quick look is not mistaken for a measurement.
    said = [f"{each.suite}, version {each.suite_version}: {each.suite_about}." for each in every if each.suite_about]
    mixed = len({(each.suite, each.samples) for each in every}) > 1
    return {"models": models, "suites": list(dict.fromkeys(said)), "mixed": mixed}


def differences_values(models: Sequence[ReportedModel]) -> dict[str, object]:
    """Clean against robust accuracy, paired comparisons, and the spread over training seeds."""
    protocol_alone = all(model.evaluation.comparison for model in models)
    # Only of finished evaluations: an unfinished one looks more robust than it is.
    finished = [each for each in models if each.verdict and each.evaluation.finished]
    values = {
        "charts": accuracy_scatters(models),
        "pairs": [pair for group in group_models(finished) for pair in _pairs(group)],
        "spreads": seed_spreads([replace(each.evaluation, name=each.label) for each in finished]),
    }
    return {**values, "worst": "worst case" if protocol_alone else "robust accuracy"} if any(values.values()) else {}


def diagnostics_values(models: Sequence[ReportedModel]) -> dict[str, object]:
    """The checks for false robustness; the section also says if nothing was checked."""
    return {"model": models[0], "missing": unanswered(models[0].evaluation)}


def accuracy_scatters(models: Sequence[ReportedModel]) -> list[Chart]:
    """Clean against robust accuracy, one mark per model; one chart for each group of at least two."""
    found = {
        group.title: [(each, each.verdict) for each in group.models if each.verdict and each.verdict.attacked]
        for group in group_models(models)
    }
    return [_scatter(title, shown) for title, shown in found.items() if len(shown) > 1]


def _scatter(title: str, shown: Sequence[tuple[ReportedModel, Verdict]]) -> Chart:
    """With the intervals of both accuracies."""
    low = min(verdict.clean.interval[0] for _, verdict in shown)
    high = max(verdict.robust.interval[1] for _, verdict in shown)
    high = math.ceil(5 * high) / 5 if high > 0.1 else 0.1  # so that the axis ends at a tick
    x = Axis("clean accuracy in %", max(low - 0.05, 0.0), 1.0, text=_percents)
    chart = Chart(title, x, Axis("worst case in %", 0.0, high, text=_percents))
    taken: list[float] = []
    for model, verdict in sorted(shown, key=lambda each: each[1].robust.value):
        clean, robust = verdict.clean, verdict.robust
        level = [chart.place(end, robust.value) for end in clean.interval]
        upright = [chart.place(clean.value, end) for end in robust.interval]
        chart.parts += [Line(ends, f"s{model.slot}", 1.5, opacity=0.45) for ends in (level, upright)]
        tip = f"{model.label}: clean {clean}, robust {robust}"
        chart.points([clean.value], [robust.value], model.slot, [typeset(tip)])
        across, above = chart.place(clean.value, robust.value)
        while any(abs(above - other) < LINE - 4 for other in taken):  # until its label overlaps no other
            above -= 1
        taken.append(above)
        name = shorten(model.label, _LETTERS, placeholder=" …")
        left = across > chart.width / 2
        anchor: Literal["start", "end"] = "end" if left else "start"
        chart.parts.append(Text(across + (-9 if left else 9), above - 6, name, "ink", anchor=anchor, halo=True))
    return chart


def _percents(share: float) -> str:
    return short(100 * share)


def _pairs(group: ModelGroup) -> list[tuple[ReportedModel, ReportedModel, Comparison]]:
    """Models that were attacked in the same way on the same images; not stochastic ones, judged by means over draws."""
    found, steady = [], [each for each in group.models if not each.evaluation.model.get("stochastic")]
    for first, second in combinations(steady, 2):
        with suppress(ArgumentError):  # they were evaluated on different images
            found.append((first, second, compare(first.evaluation, second.evaluation)))
    return found
