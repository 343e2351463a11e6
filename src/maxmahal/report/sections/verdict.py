"""How robust each model is, with intervals, and which differences between models are significant."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from maxmahal.records.statistics import Comparison
from maxmahal.records.verdict import CLEAN, SeedSpread, compare, seed_spreads
from maxmahal.report.layout import ModelGroup, ReportedModel, group_models


def verdict_values(models: Sequence[ReportedModel]) -> dict[str, object]:
    """Cards, paired comparisons, and the spread over training seeds."""
    groups = group_models(models)
    protocol_alone = all(model.evaluation.comparison for model in models)
    return {
        "models": models,
        "pairs": [pair for group in groups for pair in _pairs(group)],
        "spreads": _spreads(models),
        "suites": _suites(models),
        "worst": "worst case" if protocol_alone else "robust accuracy",
    }


def _suites(models: Sequence[ReportedModel]) -> list[str]:
    """The description of each suite, so that a quick look is not mistaken for a measurement."""
    every = [model.evaluation for model in models]
    said = [f"{each.suite}, version {each.suite_version}: {each.suite_about}." for each in every if each.suite_about]
    return list(dict.fromkeys(said))


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
