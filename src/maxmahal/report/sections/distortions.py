"""How far Carlini and Wagner's attack has to move the images."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from markupsafe import Markup

from maxmahal.records.types import StageRecords
from maxmahal.report.render import Section, render
from maxmahal.report.scales import Axis
from maxmahal.report.sections.curves import norm_of
from maxmahal.report.subjects import Group, Subject, make_groups
from maxmahal.report.svg import Chart
from maxmahal.report.wording import short, whole

_BINS = 28


@dataclass(frozen=True)
class Spread:
    """One model under one attack, over the samples it had right and the attack broke."""

    subject: Subject
    title: str
    norm: str
    drawing: Markup
    broken: int
    right: int
    mean: float
    median: float


@dataclass(frozen=True)
class _Sample:
    subject: Subject
    stage: StageRecords
    distances: Float[np.ndarray, " n"]
    right: int


def distortions_section(subjects: Sequence[Subject]) -> Section | None:
    """None where no C&W attack broke a sample."""
    groups = [(group, _spreads(group)) for group in make_groups(subjects)]
    groups = [(group, spreads) for group, spreads in groups if spreads]
    if not groups:
        return None
    body = render("sections/distortions.html.j2", groups=groups)
    return Section("distortions", "Distortion that C&W needs", "C&W", body)


def _spreads(group: Group) -> list[Spread]:
    stages: dict[str, list[_Sample]] = {}
    for subject in group.subjects:
        for stage in subject.evaluation.stages:
            if stage.kind == "carlini":
                columns = stage.columns
                kept = columns.right_before & columns.broken & np.isfinite(columns.distortion)
                if kept.any():
                    distances = columns.distortion[kept].astype(np.float64)
                    sample = _Sample(subject, stage, distances, int(columns.right_before.sum()))
                    stages.setdefault(stage.name, []).append(sample)
    return [spread for samples in stages.values() for spread in _side_by_side(samples)]


def _side_by_side(samples: list[_Sample]) -> list[Spread]:
    """Histograms of one attack share their axes, so that models can be compared by eye."""
    edges = np.linspace(0.0, max(float(each.distances.max()) for each in samples) or 1.0, _BINS + 1)
    shares = [np.histogram(each.distances, edges)[0] / each.right for each in samples]
    top = max(float(share.max()) for share in shares)
    return [_spread(each, edges, share, top) for each, share in zip(samples, shares, strict=True)]


def _spread(sample: _Sample, edges: np.ndarray, shares: np.ndarray, top: float) -> Spread:
    norm, median = norm_of(sample.subject, sample.stage), float(np.median(sample.distances))
    x = Axis(f"distortion ({norm})", 0.0, float(edges[-1]))
    y = Axis("share in %", 0.0, top * 1.12, text=lambda share: short(100 * share))
    chart = Chart(f"{sample.subject.label}, {sample.stage.title}: distortions", x, y, height=220.0)
    for low, high, share in zip(edges[:-1], edges[1:], shares, strict=True):
        if share:
            count = whole(round(share * sample.right))
            tip = f"{sample.subject.label}: {count} samples between {short(float(low))} and {short(float(high))}"
            chart.bar(float(low), float(high), float(share), sample.subject.slot, tip)
    chart.upright(median, f"median {short(median)}")
    return Spread(
        sample.subject,
        sample.stage.title,
        norm,
        chart.render(),
        len(sample.distances),
        sample.right,
        float(sample.distances.mean()),
        median,
    )
