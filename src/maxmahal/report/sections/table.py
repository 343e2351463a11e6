"""Models by attacks: one table for each data set, threat and suite, with the paper's numbers beside ours."""

from collections.abc import Sequence
from dataclasses import dataclass

from maxmahal.records.distances import is_minimum_norm, mean_distortion
from maxmahal.records.statistics import Rate
from maxmahal.records.types import StageRecords
from maxmahal.records.verdict import StageVerdict, Verdict
from maxmahal.report.paper import PaperNumber, paper_number
from maxmahal.report.render import Section, render
from maxmahal.report.subjects import Group, Subject, make_groups
from maxmahal.report.wording import DASH, percent, rate_cell, short, whole


@dataclass(frozen=True)
class Column:
    """One attack."""

    name: str
    title: str
    notes: tuple[str, ...]
    """Such as "cumulative" or "not in the worst case"."""


@dataclass(frozen=True)
class Cell:
    """What one attack left of one model."""

    value: float | None
    """Unrounded: a share, or a mean distortion under an attack that always wins."""
    text: str
    tip: str
    """The counts behind it, or why there is none."""
    partial: bool
    cumulative: bool
    """Where the column's heading cannot say so, because it differs between models."""
    paper: tuple[PaperNumber, ...]


@dataclass(frozen=True)
class Row:
    """One model."""

    subject: Subject
    cells: tuple[Cell, ...]
    worst: Cell

    @property
    def skipped(self) -> list[StageRecords]:
        """What did not run, to be said in words below the table."""
        return [stage for stage in self.subject.evaluation.stages if stage.skipped]


def table_section(subjects: Sequence[Subject]) -> Section | None:
    """None as long as no model has a single number."""
    groups = [group for group in make_groups(subjects) if any(subject.verdict for subject in group.subjects)]
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


def _table(group: Group) -> tuple[list[Column], list[Row]]:
    begun = [(subject, subject.verdict) for subject in group.subjects if subject.verdict]
    names = merged([[each.name for each in subject.evaluation.stages] for subject, _ in begun])
    found = [{each.stage.name: each for each in verdict.stages} for _, verdict in begun]
    columns = [_column(name, [by_name[name] for by_name in found if name in by_name]) for name in names]
    rows = []
    for (subject, verdict), by_name in zip(begun, found, strict=True):
        cells = tuple(_cell(subject, by_name.get(column.name), column) for column in columns)
        rows.append(Row(subject, cells, _worst(subject, verdict)))
    return columns, rows


def merged(orders: list[list[str]]) -> list[str]:
    """Every name once; one that only some plans have stands right after what precedes it there."""
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


def _column(name: str, verdicts: list[StageVerdict]) -> Column:
    stage = verdicts[0].stage
    notes = []
    if is_minimum_norm(stage):
        notes.append("mean distortion")
    elif all(each.cumulative for each in verdicts):
        notes.append("cumulative")
    if stage.origin == "diagnosis":
        notes.append("added by a diagnosis")
    if not stage.counts and stage.kind != "clean":
        notes.append("not in the worst case")
    return Column(name, stage.title, tuple(notes))


def _cell(subject: Subject, verdict: StageVerdict | None, column: Column) -> Cell:
    paper = tuple(paper_number(str(subject.evaluation.model.get("table") or ""), column.name))
    if verdict is None:
        return Cell(None, DASH, "Not in this model's plan.", False, False, paper)
    stage, rate = verdict.stage, verdict.accuracy
    partial = not stage.finished
    if stage.skipped or rate is None:
        return Cell(None, DASH, f"Skipped: {stage.skipped}" if stage.skipped else "Not run yet.", False, False, paper)
    tip = _tip(subject, verdict, rate)
    if is_minimum_norm(stage):
        distance = mean_distortion(stage)
        return Cell(distance, DASH if distance is None else short(distance), tip, partial, False, paper)
    cumulative = verdict.cumulative and "cumulative" not in column.notes
    return Cell(rate.value, rate_cell(rate), tip, partial, cumulative, paper)


def _tip(subject: Subject, verdict: StageVerdict, rate: Rate) -> str:
    stage = verdict.stage
    count = whole(int(rate.count)) if float(rate.count).is_integer() else f"{rate.count:.1f}"
    said = f"{subject.label}, {stage.title}: {count} of {whole(rate.total)} right, {percent(rate.value)} %"
    if verdict.cumulative:
        said += f"; after this attack and all before it; it ran on {whole(len(stage.columns))} survivors"
    if stage.columns.broken_8bit is not None and (looked := stage.columns.broken_8bit >= 0).any():
        still = int((stage.columns.broken_8bit[looked] == 1).sum())
        said += f"; rounded to bytes, {whole(still)} of {whole(int(looked.sum()))} images still break it"
    if not stage.finished:
        said += f"; so far, {whole(len(stage.columns))} of {whole(stage.planned)} samples are done"
    return said + "."


def _worst(subject: Subject, verdict: Verdict) -> Cell:
    rate = verdict.robust
    if not verdict.attacked:
        told = "No attack applies to it." if subject.evaluation.finished else "No attack has finished yet."
        return Cell(None, DASH, told, False, False, ())
    over = f"{subject.label}, worst case per sample over every counting attack"
    tip = f"{over}: {percent(rate.value)} % of {whole(rate.total)}."
    return Cell(rate.value, rate_cell(rate), tip, not subject.evaluation.finished, False, ())
