"""The cost of each attack."""

from collections.abc import Sequence

from maxmahal.report.layout import ReportedModel, Section, render, stages_run


def cost_section(models: Sequence[ReportedModel]) -> Section | None:
    """None if nothing ran yet."""
    costs = [(model, stages) for model in models if (stages := stages_run(model.evaluation))]
    if not costs:
        return None
    return Section("cost", "Cost", "Cost", render("sections/cost.html.j2", models=costs))
