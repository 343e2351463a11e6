"""The cost of each attack."""

from collections.abc import Sequence
from dataclasses import dataclass

from maxmahal.records.types import StageRecords
from maxmahal.report.layout import ReportedModel, Section, render, stages_run


@dataclass(frozen=True)
class StageCost:
    """One stage; None for what an outside package does not report."""

    stage: StageRecords
    forward: int | None
    backward: int | None
    queries: int | None


def cost_section(models: Sequence[ReportedModel]) -> Section | None:
    """None if nothing ran yet."""
    costs = [(model, [_cost(stage) for stage in stages_run(model.evaluation)]) for model in models]
    costs = [(model, stages) for model, stages in costs if stages]
    if not costs:
        return None
    return Section("cost", "Cost", "Cost", render("sections/cost.html.j2", models=costs))


def _cost(stage: StageRecords) -> StageCost:
    columns, rating = stage.columns, stage.rating
    return StageCost(
        stage,
        None if (columns.forward < 0).any() else rating.forward,
        None if (columns.backward < 0).any() else rating.backward,
        None if (columns.queries < 0).any() else rating.queries,
    )
