"""Models by attacks: one table for each data set, threat and suite, with the paper's numbers beside ours."""

from collections.abc import Sequence
from dataclasses import dataclass

from maxmahal.records.statistics import Rate
from maxmahal.records.types import StageRecords
from maxmahal.records.verdict import StageVerdict, Verdict
from maxmahal.report.layout import ModelGroup, ReportedModel, Section, group_models, render
from maxmahal.report.tables import PaperNumber, paper_number
from maxmahal.report.wording import DASH, percent, rate_cell, short, whole


@dataclass(frozen=True)
class AttackColumn:
    """One attack."""

    name: str
    title: str
    notes: tuple[str, ...]
    """Such as "cumulative" or "not in the worst case"."""


@dataclass(frozen=True)
class AttackCell:
    """The accuracy of one model under one attack."""

    value: float | None
    """Unrounded: a share, or a mean distortion for an attack that searches for the smallest one."""
    text: str
    tip: str
    """The counts behind it, or why there is no value."""
    partial: bool
    cumulative: bool
    """Set if the column's heading cannot say so, because it differs between models."""
    paper: tuple[PaperNumber, ...]


@dataclass(frozen=True)
class ModelRow:
    """One model."""

    model: ReportedModel
    cells: tuple[AttackCell, ...]
    worst: AttackCell

    @property
    def skipped(self) -> list[StageRecords]:
        """The stages that did not run; listed below the table."""
        return [stage for stage in self.model.evaluation.stages if stage.skipped]


def table_section(models: Sequence[ReportedModel]) -> Section | None:
    """None if no model has a result yet."""
    groups = [group for group in group_models(models) if any(model.verdict for model in group.models)]
    if not groups:
        return None
    tables = [(group, *_table(group)) for group in groups]
    cells = [cell for _, _, rows in tables for row in rows for cell in row.cells]
    body = render(
        "sections/table.html.j2",
        tables=tables,
        has_paper=any(cell.paper for cell in cells),
        has_partial=any(cell.partial for cell in cells),
    )
    return Section("attacks", "Accuracy under each attack", "Attacks", body)


def _table(group: ModelGroup) -> tuple[list[AttackColumn], list[ModelRow]]:
    begun = [(model, model.verdict) for model in group.models if model.verdict]
    names = merged([[each.name for each in model.evaluation.stages] for model, _ in begun])
    found = [{each.stage.name: each for each in verdict.stages} for _, verdict in begun]
    columns = [_column(name, [by_name[name] for by_name in found if name in by_name]) for name in names]
    rows = []
    for (model, verdict), by_name in zip(begun, found, strict=True):
        cells = tuple(_cell(model, by_name.get(column.name), column) for column in columns)
        rows.append(ModelRow(model, cells, _worst(model, verdict)))
    return columns, rows


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


def _column(name: str, verdicts: list[StageVerdict]) -> AttackColumn:
    stage = verdicts[0].stage
    notes = []
    if stage.is_minimum_norm:
        notes.append("mean distortion")
    elif all(each.cumulative for each in verdicts):
        notes.append("cumulative")
    if stage.origin == "diagnosis":
        notes.append("added by a diagnosis")
    if not stage.counts and stage.kind != "clean":
        notes.append("not in the worst case")
    return AttackColumn(name, stage.title, tuple(notes))


def _cell(model: ReportedModel, verdict: StageVerdict | None, column: AttackColumn) -> AttackCell:
    paper = tuple(paper_number(str(model.evaluation.model.get("table") or ""), column.name))
    if verdict is None:
        return AttackCell(None, DASH, "Not in this model's plan.", False, False, paper)
    stage, rate = verdict.stage, verdict.accuracy
    partial = not stage.finished
    if stage.skipped or rate is None:
        return AttackCell(
            None, DASH, f"Skipped: {stage.skipped}" if stage.skipped else "Not run yet.", False, False, paper
        )
    tip = _tip(model, verdict, rate)
    if stage.is_minimum_norm:
        distance = stage.mean_distortion
        return AttackCell(distance, DASH if distance is None else short(distance), tip, partial, False, paper)
    cumulative = verdict.cumulative and "cumulative" not in column.notes
    return AttackCell(rate.value, rate_cell(rate), tip, partial, cumulative, paper)


def _tip(model: ReportedModel, verdict: StageVerdict, rate: Rate) -> str:
    stage = verdict.stage
    count = whole(int(rate.count)) if float(rate.count).is_integer() else f"{rate.count:.1f}"
    said = f"{model.label}, {stage.title}: {count} of {whole(rate.total)} right, {percent(rate.value)} %"
    if verdict.cumulative:
        said += f"; after this attack and those before it; it ran on {whole(len(stage.columns))} samples still correct"
    if stage.columns.broken_8bit is not None and (looked := stage.columns.broken_8bit >= 0).any():
        still = int((stage.columns.broken_8bit[looked] == 1).sum())
        said += f"; re-checked after rounding to 8 bits: {whole(still)} of {whole(int(looked.sum()))} still break it"
    if not stage.finished:
        said += f"; so far {whole(len(stage.columns))} of {whole(stage.planned)} samples"
    return said + "."


def _worst(model: ReportedModel, verdict: Verdict) -> AttackCell:
    rate = verdict.robust
    if not verdict.attacked:
        told = "No attack applies to it." if model.evaluation.finished else "No attack has finished yet."
        return AttackCell(None, DASH, told, False, False, ())
    over = f"{model.label}, worst case per sample over every attack that counts"
    tip = f"{over}: {percent(rate.value)} % of {whole(rate.total)}."
    return AttackCell(rate.value, rate_cell(rate), tip, not model.evaluation.finished, False, ())
