"""The checks for false robustness, those with a warning first."""

from collections.abc import Sequence

from maxmahal.records.types import Evaluation, Finding
from maxmahal.records.verdict import unanswered
from maxmahal.report.layout import ReportedModel


def diagnostics_values(models: Sequence[ReportedModel]) -> dict[str, object]:
    """The section also says if nothing was checked."""
    (model,) = models
    return {"model": model, "missing": unanswered(model.evaluation), "added": _added, "measured": _measured}


def _added(evaluation: Evaluation, finding: Finding) -> list[str]:
    """The titles of the stages that ran because of a finding."""
    run = [(stage.title, stage.settings) for stage in evaluation.stages if not stage.skipped]
    added = [t for t, given in run if given.get("because") == finding.check or given.get("remedy") in finding.adds]
    return list(dict.fromkeys(added))


def _measured(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(_measured(each) for each in value)
    return str(value)
