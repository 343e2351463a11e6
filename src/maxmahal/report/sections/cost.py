"""What each attack cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from maxmahal.records.types import StageRecords
from maxmahal.report.render import Section, render
from maxmahal.report.subjects import Subject, counted


@dataclass(frozen=True)
class Bill:
    """One stage; None for what an outside package does not tell."""

    stage: StageRecords
    forward: int | None
    backward: int | None
    queries: int | None


def cost_section(subjects: Sequence[Subject]) -> Section | None:
    """None as long as nothing ran."""
    models = [(subject, [_bill(stage) for stage in counted(subject.evaluation)]) for subject in subjects]
    models = [(subject, bills) for subject, bills in models if bills]
    if not models:
        return None
    return Section("cost", "What it cost", "Cost", render("sections/cost.html.j2", models=models))


def _bill(stage: StageRecords) -> Bill:
    columns, rating = stage.columns, stage.rating
    return Bill(
        stage,
        None if (columns.forward < 0).any() else rating.forward,
        None if (columns.backward < 0).any() else rating.backward,
        None if (columns.queries < 0).any() else rating.queries,
    )
