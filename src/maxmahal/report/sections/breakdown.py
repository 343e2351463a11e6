"""Which attack broke which samples: one bar per model, each sample counted for the first attack that broke it."""

from collections.abc import Sequence
from dataclasses import dataclass

from maxmahal.records.types import Evaluation, StageRecords
from maxmahal.records.verdict import CLEAN, stands
from maxmahal.report.layout import ReportedModel
from maxmahal.report.sections.attacks import merged


@dataclass(frozen=True)
class SampleShare:
    """The samples with one outcome."""

    title: str
    count: int
    share: float
    kind: str
    """The style sheet's class: "wrong", "broke" or "stand"."""
    depth: int
    """How late in the plan, from 0 to 100: later attacks have the stronger colour."""


@dataclass(frozen=True)
class Breakdown:
    """One model."""

    model: ReportedModel
    parts: tuple[SampleShare, ...]
    total: int


def breakdown_values(models: Sequence[ReportedModel]) -> dict[str, object]:
    """Nothing if no model has a result yet."""
    bars = breakdowns(models)
    parts = {part.title: part for bar in bars for part in bar.parts if part.count}
    legend = sorted(parts.values(), key=lambda part: (("wrong", "broke", "stand").index(part.kind), part.depth))
    return {"bars": bars, "legend": legend} if bars else {}


def breakdowns(models: Sequence[ReportedModel]) -> list[Breakdown]:
    """One per model that has a verdict."""
    order = merged([[stage.name for stage in _counting(model.evaluation)] for model in models])
    found = []
    for model, verdict in ((model, model.verdict) for model in models if model.verdict):
        total, robust = verdict.clean.total, int(stands(model.evaluation).sum())
        broke = {each.stage.name: each.broke for each in verdict.stages}
        counting = _counting(model.evaluation)
        wrong = total - robust - sum(broke[stage.name] for stage in counting)
        parts = [SampleShare("wrong without an attack", wrong, wrong / total, "wrong", 0)]
        for stage in counting:
            depth = 100 * order.index(stage.name) // max(len(order) - 1, 1)
            count = broke[stage.name]
            parts.append(SampleShare(stage.title, count, count / total, "broke", depth))
        parts.append(SampleShare("robust", robust, robust / total, "stand", 0))
        found.append(Breakdown(model, tuple(parts), total))
    return found


def _counting(evaluation: Evaluation) -> list[StageRecords]:
    run = [stage for stage in evaluation.stages if not stage.skipped and len(stage.columns)]
    return [stage for stage in run if stage.counts and stage.kind != CLEAN]
