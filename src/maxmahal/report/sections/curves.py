"""Accuracy against epsilon, steps and restarts, and the distortion that Carlini and Wagner's attack needs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float

from maxmahal.records.types import StageRecords
from maxmahal.report.chart import Axis, Chart
from maxmahal.report.layout import ModelGroup, ReportedModel, group_models
from maxmahal.report.wording import percent, short, whole

_DRAWN = 240  # points of an exact curve: its drawing has no more pixels
_MARKED = 24
_WRITTEN = 32  # at most so many 255ths are written as a fraction
_ROOM = 0.12  # share of the axis that the text of a tick takes
_BINS = 28
_SHARES = Axis("accuracy in %", 0.0, 1.0, text=lambda share: f"{100 * share:.0f}")


@dataclass(frozen=True)
class Curve:
    """One model in one chart, in shares."""

    model: ReportedModel
    xs: tuple[float, ...]
    ys: tuple[float, ...]

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """Point by point."""
        return list(zip(self.xs, self.ys, strict=True))


@dataclass(frozen=True)
class CurveChart:
    """One chart with the numbers behind it."""

    check: str  # the diagnostic that measured it; empty for exact curves
    title: str
    note: str
    x_name: str
    chart: Chart
    lines: tuple[Curve, ...]


def curves_values(models: Sequence[ReportedModel]) -> dict[str, object]:
    """Nothing if no finding holds a curve and no attack searched for the smallest distortion."""
    shown = []
    for group in group_models(models):
        if curves := curve_charts(group):
            labels = {line.model.label for each in curves for line in each.lines}
            shown.append((group, [model for model in group.models if model.label in labels], curves))
    return {"groups": shown} if shown else {}


def curve_charts(group: ModelGroup) -> list[CurveChart]:
    """One chart per kind of curve, one line per model."""
    text = _as_written if group.models[0].evaluation.norm == "Linf" else short
    wanted = [
        ("epsilon-growth", "epsilons", "accuracies", "epsilon", "A model that no epsilon breaks hides its gradients."),
        ("still-falling", "steps", "accuracy_by_steps", "steps", "If a curve still falls at its end, use more steps."),
        ("still-falling", "restarts", "accuracy_by_restarts", "restarts", "If a curve still falls, use more restarts."),
    ]
    found = []
    for check, x_key, y_key, x_name, note in wanted:
        lines = [line for model in group.models if (line := _from_findings(model, check, x_key, y_key))]
        if lines:
            found.append(_draw(check, note, x_name, lines, text if x_name == "epsilon" else short))
    exact: dict[str, list[tuple[ReportedModel, StageRecords]]] = {}
    for model in group.models:
        for stage in model.evaluation.stages:
            if stage.is_minimum_norm and stage.finished and np.isfinite(stage.columns.distortion).all():
                exact.setdefault(stage.name, []).append((model, stage))
    return found + [_exact(members) for members in exact.values()]


def _from_findings(model: ReportedModel, check: str, *keys: str) -> Curve | None:
    """The curve of a check, if all its values are finite numbers."""
    for finding in (finding for finding in model.evaluation.findings if finding.check == check):
        both = [values if isinstance(values := finding.numbers.get(key), list) else [] for key in keys]
        known = all(isinstance(each, int | float) and math.isfinite(each) for values in both for each in values)
        if known and both[0] and len(both[0]) == len(both[1]):
            return Curve(model, *(tuple(map(float, values)) for values in both))
    return None


def _draw(check: str, note: str, x_name: str, lines: list[Curve], text: Callable[[float], str]) -> CurveChart:
    title = f"Accuracy against {x_name}"
    places = sorted({x for line in lines for x in line.xs})
    wide = places[-1] > 10 * max(min((place for place in places if place), default=0.0), 1e-12)
    scale: Literal["root", "linear"] = "root" if wide else "linear"
    name = f"{x_name} (square-root scale)" if wide else x_name
    axis, apart = Axis(name, places[0], places[-1], scale, text), places[-1:]
    for place in reversed(places):  # those whose texts do not overlap
        if axis.place(apart[0]) - axis.place(place) >= _ROOM:
            apart.insert(0, place)
    chart = Chart(title, replace(axis, at=tuple(apart)), _SHARES)
    for line in lines:
        chart.line(line.xs, line.ys, line.model.slot)
        tips = [f"{line.model.label}: {percent(y)} % at {x_name} {text(x)}" for x, y in line.pairs]
        chart.points(line.xs, line.ys, line.model.slot, tips)
    return CurveChart(check, title, note, x_name, chart, tuple(lines))


def _exact(members: list[tuple[ReportedModel, StageRecords]]) -> CurveChart:
    stage = members[0][1]
    norm = norm_of(members[0][0], stage)
    lines = [Curve(model, *survival(each.columns.distortion)) for model, each in members]
    high = max(line.xs[-1] for line in lines) or 1.0
    name = f"distortion ({norm})"
    chart = Chart(f"Share of samples for which {stage.title} needs a larger distortion", Axis(name, 0.0, high), _SHARES)
    for line in lines:
        chart.line(line.xs, line.ys, line.model.slot, steps=True)
        some = np.unique(np.linspace(0, len(line.xs) - 1, _MARKED).astype(int))
        xs, ys = [line.xs[index] for index in some], [line.ys[index] for index in some]
        tips = [f"{line.model.label}: {percent(y)} % need more than {short(x)}" for x, y in zip(xs, ys, strict=True)]
        chart.points(xs, ys, line.model.slot, tips)
    total = whole(len(stage.columns))
    note = f"Exact: the share of {total} samples whose smallest distortion found is larger than each epsilon."
    return CurveChart("", f"{stage.title}: accuracy at every epsilon", note, name, chart, tuple(lines))


def survival(distortions: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Distortions in rising order from 0, and the share of samples beyond each."""
    ordered = np.sort(distortions.astype(np.float64))
    places = np.unique(np.concatenate([[0.0], ordered]))
    if len(places) > _DRAWN:
        places = places[np.unique(np.linspace(0, len(places) - 1, _DRAWN).astype(int))]
    beyond = 1 - np.searchsorted(ordered, places, side="right") / len(ordered)
    return tuple(places.tolist()), tuple(beyond.tolist())


def norm_of(model: ReportedModel, stage: StageRecords) -> str:
    """The norm of a stage's distortions; C&W's attack has only L2."""
    return str(stage.settings.get("norm") or ("L2" if stage.kind == "carlini" else model.evaluation.norm))


def _as_written(epsilon: float) -> str:
    """Such as 8/255 or 16/256, if it is such a fraction."""
    for parts in (255, 256):
        count = round(epsilon * parts)
        if 0 < count <= _WRITTEN and abs(epsilon * parts - count) < 1e-4:
            return f"{count}/{parts}"
    return short(epsilon)


@dataclass(frozen=True)
class DistortionHistogram:
    """One model under one attack, over the samples that it classified correctly and the attack broke."""

    model: ReportedModel
    title: str
    norm: str
    distances: Float[np.ndarray, " n"]
    median: float
    right: int  # how many samples it classified correctly
    chart: Chart


def distortions_values(models: Sequence[ReportedModel]) -> dict[str, object]:
    """Nothing if no C&W attack broke a sample."""
    groups = [(group, distortion_histograms(group)) for group in group_models(models)]
    groups = [(group, histograms) for group, histograms in groups if histograms]
    return {"groups": groups} if groups else {}


def distortion_histograms(group: ModelGroup) -> list[DistortionHistogram]:
    """One per attack and model."""
    stages: dict[str, list[tuple[ReportedModel, StageRecords, Float[np.ndarray, " n"]]]] = {}
    for model in group.models:
        for stage in model.evaluation.stages:
            columns = stage.columns
            kept = columns.right_before & columns.broken & np.isfinite(columns.distortion)
            if stage.kind == "carlini" and kept.any():
                distances = columns.distortion[kept].astype(np.float64)
                stages.setdefault(stage.name, []).append((model, stage, distances))
    return [histogram for members in stages.values() for histogram in _side_by_side(members)]


def _side_by_side(
    members: list[tuple[ReportedModel, StageRecords, Float[np.ndarray, " n"]]],
) -> list[DistortionHistogram]:
    """Histograms of one attack share their axes, so that models can be compared by eye."""
    edges = np.linspace(0.0, max(float(distances.max()) for *_, distances in members) or 1.0, _BINS + 1)
    rights = [int(stage.columns.right_before.sum()) for _, stage, _ in members]
    counts = [np.histogram(distances, edges)[0] for *_, distances in members]
    top = max(float(count.max() / right) for count, right in zip(counts, rights, strict=True))
    y = Axis("share in %", 0.0, top * 1.12, text=lambda share: short(100 * share))
    histograms = []
    for (model, stage, distances), count, right in zip(members, counts, rights, strict=True):
        norm, median = norm_of(model, stage), float(np.median(distances))
        x = Axis(f"distortion ({norm})", 0.0, float(edges[-1]))
        chart = Chart(f"{model.label}, {stage.title}: distortions", x, y, height=220.0)
        for low, high, samples in zip(edges[:-1].tolist(), edges[1:].tolist(), count.tolist(), strict=True):
            if samples:
                tip = f"{model.label}: {whole(samples)} samples between {short(low)} and {short(high)}"
                chart.bar(low, high, samples / right, model.slot, tip)
        chart.upright(median, f"median {short(median)}")
        histograms.append(DistortionHistogram(model, stage.title, norm, distances, median, right, chart))
    return histograms
