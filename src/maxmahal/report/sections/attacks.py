"""Models by attacks: one table for each data set, threat and suite, with the paper's numbers beside ours."""

from collections.abc import Sequence
from dataclasses import dataclass

from maxmahal.records.verdict import StageVerdict
from maxmahal.report.layout import ModelGroup, ReportedModel, group_models
from maxmahal.report.tables import PaperNumber, paper_number


@dataclass(frozen=True)
class AttackColumn:
    """One attack."""

    name: str
    title: str
    notes: tuple[str, ...]
    """Such as "cumulative" or "not in the worst case"."""


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
    """None if no model has a result yet."""
    groups = [group for group in group_models(models) if any(model.verdict for model in group.models)]
    if not groups:
        return {}
    tables = [(group, *_table(group)) for group in groups]
    cells = [cell for _, _, rows in tables for _, cells in rows for cell in cells]
    return {
        "tables": tables,
        "has_paper": any(cell.paper for cell in cells),
        "has_partial": any(cell.partial for cell in cells),
    }


def _table(group: ModelGroup) -> tuple[list[AttackColumn], list[tuple[ReportedModel, list[AttackCell]]]]:
    begun = [(model, model.verdict) for model in group.models if model.verdict]
    names = merged([[each.name for each in model.evaluation.stages] for model, _ in begun])
    found = [{each.stage.name: each for each in verdict.stages} for _, verdict in begun]
    columns = [_column(name, [by_name[name] for by_name in found if name in by_name]) for name in names]
    rows = []
    for (model, _), by_name in zip(begun, found, strict=True):
        table = str(model.evaluation.model.get("table") or "")
        rows.append((model, [AttackCell(by_name.get(name), paper_number(table, name)) for name in names]))
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
