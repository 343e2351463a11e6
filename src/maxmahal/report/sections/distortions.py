"""The distortion that Carlini and Wagner's attack needs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from maxmahal.records.types import StageRecords
from maxmahal.report.chart import Axis, Chart
from maxmahal.report.layout import ModelGroup, ReportedModel, Section, group_models, render
from maxmahal.report.sections.curves import norm_of
from maxmahal.report.wording import short, whole

_BINS = 28


@dataclass(frozen=True)
class DistortionHistogram:
    """One model under one attack, over the samples that it classified correctly and the attack broke."""

    model: ReportedModel
    title: str
    norm: str
    chart: Chart
    broken: int
    right: int
    mean: float
    median: float


@dataclass(frozen=True)
class _Sample:
    model: ReportedModel
    stage: StageRecords
    distances: Float[np.ndarray, " n"]
    right: int


def distortions_section(models: Sequence[ReportedModel]) -> Section | None:
    """None if no C&W attack broke a sample."""
    groups = [(group, distortion_histograms(group)) for group in group_models(models)]
    groups = [(group, histograms) for group, histograms in groups if histograms]
    if not groups:
        return None
    body = render("sections/distortions.html.j2", groups=groups)
    return Section("distortions", "Distortion that C&W needs", "C&W", body)


def distortion_histograms(group: ModelGroup) -> list[DistortionHistogram]:
    """One per attack and model."""
    stages: dict[str, list[_Sample]] = {}
    for model in group.models:
        for stage in model.evaluation.stages:
            if stage.kind == "carlini":
                columns = stage.columns
                kept = columns.right_before & columns.broken & np.isfinite(columns.distortion)
                if kept.any():
                    distances = columns.distortion[kept].astype(np.float64)
                    sample = _Sample(model, stage, distances, int(columns.right_before.sum()))
                    stages.setdefault(stage.name, []).append(sample)
    return [histogram for samples in stages.values() for histogram in _side_by_side(samples)]


def _side_by_side(samples: list[_Sample]) -> list[DistortionHistogram]:
    """Histograms of one attack share their axes, so that models can be compared by eye."""
    edges = np.linspace(0.0, max(float(each.distances.max()) for each in samples) or 1.0, _BINS + 1)
    shares = [np.histogram(each.distances, edges)[0] / each.right for each in samples]
    top = max(float(share.max()) for share in shares)
    return [_histogram(each, edges, share, top) for each, share in zip(samples, shares, strict=True)]


def _histogram(sample: _Sample, edges: np.ndarray, shares: np.ndarray, top: float) -> DistortionHistogram:
    norm, median = norm_of(sample.model, sample.stage), float(np.median(sample.distances))
    x = Axis(f"distortion ({norm})", 0.0, float(edges[-1]))
    y = Axis("share in %", 0.0, top * 1.12, text=lambda share: short(100 * share))
    chart = Chart(f"{sample.model.label}, {sample.stage.title}: distortions", x, y, height=220.0)
    for low, high, share in zip(edges[:-1], edges[1:], shares, strict=True):
        if share:
            count = whole(round(share * sample.right))
            tip = f"{sample.model.label}: {count} samples between {short(float(low))} and {short(float(high))}"
            chart.bar(float(low), float(high), float(share), sample.model.slot, tip)
    chart.upright(median, f"median {short(median)}")
    return DistortionHistogram(
        sample.model,
        sample.stage.title,
        norm,
        chart,
        len(sample.distances),
        sample.right,
        float(sample.distances.mean()),
        median,
    )
