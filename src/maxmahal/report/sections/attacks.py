"""Attacks by models, with the paper's numbers beside ours, and which attack broke which samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from maxmahal.records.types import Evaluation, StageRecords
from maxmahal.records.verdict import CLEAN, stands
from maxmahal.report.layout import ReportedModel, group_models
from maxmahal.report.tables import paper_number


def table_values(models: Sequence[ReportedModel]) -> dict[str, object]:
    """One table for each data set, threat and suite; nothing if no model has a result yet."""
    found = [(group, [model for model in group.models if model.verdict]) for group in group_models(models)]
    tables = [(group, begun, _rows(begun)) for group, begun in found if begun]
    cells = [cell for _, _, rows in tables for row in rows for cell in row["cells"]]
    measured = [each for cell in cells if (each := cell["verdict"]) and each.accuracy and not each.stage.skipped]
    marks = {"has_paper": any(cell["paper"] for cell in cells)}
    marks["has_partial"] = not all(each.stage.finished for each in measured)
    return {"tables": tables, "single": len(models) == 1, **marks} if tables else {}


def _rows(models: list[ReportedModel]) -> list[dict[str, Any]]:
    """One row per attack, with one cell per model: its verdict, unless the attack is not in its plan."""
    plans = [{each.stage.name: each for each in model.verdict.stages} for model in models if model.verdict]
    papers = [str(model.evaluation.model.get("table") or "") for model in models]
    rows = []
    for name in merged([[each.name for each in model.evaluation.stages] for model in models]):
        verdicts = [plan[name] for plan in plans if name in plan]
        stage = verdicts[0].stage
        notes = {
            "mean distortion": stage.is_minimum_norm,
            "cumulative": not stage.is_minimum_norm and all(each.cumulative for each in verdicts),
            "added by a diagnosis": stage.origin == "diagnosis",
            "not in the worst case": not stage.counts and stage.kind != "clean",
        }
        pairs = zip(plans, papers, strict=True)
        cells = [{"verdict": plan.get(name), "paper": paper_number(paper, name)} for plan, paper in pairs]
        rows.append({"title": stage.title, "notes": [note for note, holds in notes.items() if holds], "cells": cells})
    return rows


def merged(orders: list[list[str]]) -> list[str]:
    """Every name once; a name that only some plans have follows the name before it in that plan."""
    merged: list[str] = []
    for order in orders:
        place = 0
        for name in order:
            if name in merged:
                place = merged.index(name) + 1
            else:
                merged.insert(place, name)
                place += 1
    return merged


@dataclass(frozen=True)
class SampleShare:
    """The samples with one outcome."""

    title: str
    count: int
    share: float
    kind: str  # the style sheet's class: "wrong", "broke" or "stand"
    depth: int  # how late in the plan, from 0 to 100: later attacks have the stronger colour


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
