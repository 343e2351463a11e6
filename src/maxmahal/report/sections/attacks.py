"""Attacks by models: one table for each data set, threat and suite, with the paper's numbers beside ours."""

from collections.abc import Sequence
from dataclasses import dataclass

from maxmahal.records.verdict import StageVerdict
from maxmahal.report.layout import ReportedModel, group_models
from maxmahal.report.tables import PaperNumber, paper_number


@dataclass(frozen=True)
class AttackRow:
    """One attack."""

    name: str
    title: str
    notes: tuple[str, ...]
    """Such as "cumulative" or "not in the worst case"."""
    cells: tuple["AttackCell", ...]
    """One per model."""


@dataclass(frozen=True)
class AttackCell:
    """One model under one attack."""

    verdict: StageVerdict | None
    """Nothing if the attack is not in the model's plan."""
    paper: list[PaperNumber]

    @property
    def partial(self) -> bool:
        """Whether it has a value of some samples only."""
        measured = self.verdict is not None and self.verdict.accuracy is not None and not self.verdict.stage.skipped
        return measured and self.verdict is not None and not self.verdict.stage.finished


def table_values(models: Sequence[ReportedModel]) -> dict[str, object]:
    """Nothing if no model has a result yet."""
    found = [(group, [model for model in group.models if model.verdict]) for group in group_models(models)]
    tables = [(group, begun, _rows(begun)) for group, begun in found if begun]
    cells = [cell for _, _, rows in tables for row in rows for cell in row.cells]
    marks = {"has_paper": any(cell.paper for cell in cells), "has_partial": any(cell.partial for cell in cells)}
    return {"tables": tables, "single": len(models) == 1, **marks} if tables else {}


def _rows(models: list[ReportedModel]) -> list[AttackRow]:
    names = merged([[each.name for each in model.evaluation.stages] for model in models])
    found = [{each.stage.name: each for each in model.verdict.stages} for model in models if model.verdict]
    papers = [str(model.evaluation.model.get("table") or "") for model in models]
    rows = []
    for name in names:
        pairs = zip(found, papers, strict=True)
        rows.append(_row(name, [AttackCell(by_name.get(name), paper_number(paper, name)) for by_name, paper in pairs]))
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


def _row(name: str, cells: list[AttackCell]) -> AttackRow:
    verdicts = [cell.verdict for cell in cells if cell.verdict]
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
    return AttackRow(name, stage.title, tuple(notes), tuple(cells))
