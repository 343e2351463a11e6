"""The distortion that Carlini and Wagner's attack needs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from maxmahal.records.types import StageRecords
from maxmahal.report.chart import Axis, Chart
from maxmahal.report.layout import ModelGroup, ReportedModel, group_models
from maxmahal.report.sections.curves import norm_of
from maxmahal.report.wording import short, whole

_BINS = 28


@dataclass(frozen=True)
class DistortionHistogram:
    """One model under one attack, over the samples that it classified correctly and the attack broke."""

    model: ReportedModel
    title: str
    norm: str
    distances: Float[np.ndarray, " n"]
    median: float
    right: int
    """How many samples it classified correctly."""
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
