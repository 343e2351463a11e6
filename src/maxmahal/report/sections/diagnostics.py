"""The checks for false robustness, those with a warning first."""

from collections.abc import Sequence
from dataclasses import dataclass

from maxmahal.records.types import Evaluation, Finding
from maxmahal.records.verdict import unanswered
from maxmahal.report.layout import ReportedModel, Section, render


@dataclass(frozen=True)
class CheckedFinding:
    """One finding, and the attacks that were added because of it."""

    finding: Finding
    added: tuple[str, ...]
    """Titles of the stages that ran because of it."""
    numbers: tuple[tuple[str, str], ...]


def diagnostics_section(models: Sequence[ReportedModel]) -> Section | None:
    """Never None: it also says if nothing was checked."""
    checked = [(model, unanswered(model.evaluation), *_split(model.evaluation)) for model in models]
    body = render("sections/diagnostics.html.j2", models=checked)
    return Section("diagnostics", "Signs of false robustness", "Diagnostics", body)


def _split(evaluation: Evaluation) -> tuple[list[CheckedFinding], list[CheckedFinding]]:
    checked = [_checked(evaluation, finding) for finding in evaluation.findings]
    return [each for each in checked if each.finding.flagged], [each for each in checked if not each.finding.flagged]


def _checked(evaluation: Evaluation, finding: Finding) -> CheckedFinding:
    added = [
        stage.title
        for stage in evaluation.stages
        if not stage.skipped
        and (stage.settings.get("because") == finding.check or stage.settings.get("remedy") in finding.adds)
    ]
    return CheckedFinding(
        finding, tuple(dict.fromkeys(added)), tuple((key, _text(value)) for key, value in finding.numbers.items())
    )


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(_text(each) for each in value)
    return str(value)
