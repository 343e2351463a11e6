"""How robust each model is, with intervals, and which differences between models are significant."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from markupsafe import Markup

from maxmahal.records.statistics import Comparison
from maxmahal.records.verdict import CLEAN, SeedSpread, Verdict, compare, seed_spreads
from maxmahal.report.chart import element, picture
from maxmahal.report.layout import ModelGroup, ReportedModel, Section, group_models, render
from maxmahal.report.wording import percent


def verdict_section(models: Sequence[ReportedModel]) -> Section | None:
    """Cards, paired comparisons, and the spread over training seeds."""
    groups = group_models(models)
    protocol_alone = all(model.evaluation.comparison for model in models)
    body = render(
        "sections/verdict.html.j2",
        models=models,
        gauge=_gauge,
        pairs=[pair for group in groups for pair in _pairs(group)],
        spreads=_spreads(models),
        suites=_suites(models),
        worst="worst case" if protocol_alone else "robust accuracy",
    )
    return Section("verdict", "Verdict", "Verdict", body)


def _suites(models: Sequence[ReportedModel]) -> list[str]:
    """The description of each suite, so that a quick look is not mistaken for a measurement."""
    every = [model.evaluation for model in models]
    said = [f"{each.suite}, version {each.suite_version}: {each.suite_about}." for each in every if each.suite_about]
    return list(dict.fromkeys(said))


def _gauge(verdict: Verdict, worst: str) -> Markup:
    """From 0 to 100 %: the interval as a bar, the worst case as a line, the clean accuracy as a circle."""
    low, high = verdict.robust.interval
    robust, clean = verdict.robust.value, verdict.clean.value
    parts = [
        element("rect", class_="track", x=0, y=9, width=400, height=6, rx=3),
        element("rect", class_="span", x=400 * low, y=7, width=max(400 * (high - low), 3.0), height=10, rx=2),
        element("rect", class_="needle", x=_inside(400 * robust - 1.5), y=2, width=3, height=20, rx=1),
        element("circle", class_="clean", cx=min(max(400 * clean, 6.0), 394.0), cy=12, r=5),
    ]
    title = f"{worst} {percent(robust)} % between {percent(low)} and {percent(high)} %; clean {percent(clean)} %"
    return picture(title, parts, 400.0, 24.0, "gauge")


def _inside(left: float) -> float:
    return min(max(left, 0.0), 397.0)


def _pairs(group: ModelGroup) -> list[tuple[ReportedModel, ReportedModel, Comparison]]:
    """Models that were attacked in the same way on the same images."""
    finished = [model for model in group.models if model.evaluation.finished and model.verdict]
    return [
        (first, second, compare(first.evaluation, second.evaluation))
        for first, second in combinations(finished, 2)
        if _same_images(first, second)
    ]


def _same_images(first: ReportedModel, second: ReportedModel) -> bool:
    one, other = first.evaluation, second.evaluation
    alike = one.data_fingerprint == other.data_fingerprint and one.samples == other.samples
    return alike and np.array_equal(one.stage(CLEAN).columns.sample, other.stage(CLEAN).columns.sample)


def _spreads(models: Sequence[ReportedModel]) -> list[SeedSpread]:
    """Only of finished evaluations: an unfinished one looks more robust than it is."""
    finished = [each for each in models if each.verdict and each.evaluation.finished]
    return seed_spreads([replace(each.evaluation, name=each.label) for each in finished])
