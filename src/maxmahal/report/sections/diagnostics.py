"""Every sign of false robustness that was looked for, those that were found first."""

from collections.abc import Sequence
from dataclasses import dataclass

from maxmahal.records.types import Evaluation, Finding
from maxmahal.records.verdict import unanswered
from maxmahal.report.render import Section, render
from maxmahal.report.subjects import Subject


@dataclass(frozen=True)
class Checked:
    """One finding and what came of it."""

    finding: Finding
    added: tuple[str, ...]
    """Titles of the stages that ran because of it."""
    numbers: tuple[tuple[str, str], ...]


def diagnostics_section(subjects: Sequence[Subject]) -> Section | None:
    """Never None: that nobody looked is worth knowing too."""
    models = [(subject, unanswered(subject.evaluation), *_split(subject.evaluation)) for subject in subjects]
    body = render("sections/diagnostics.html.j2", models=models)
    return Section("diagnostics", "Signs of false robustness", "Diagnostics", body)


def _split(evaluation: Evaluation) -> tuple[list[Checked], list[Checked]]:
    checked = [_checked(evaluation, finding) for finding in evaluation.findings]
    return [each for each in checked if each.finding.flagged], [each for each in checked if not each.finding.flagged]


def _checked(evaluation: Evaluation, finding: Finding) -> Checked:
    added = [
        stage.title
        for stage in evaluation.stages
        if not stage.skipped
        and (stage.settings.get("because") == finding.check or stage.settings.get("remedy") in finding.adds)
    ]
    return Checked(
        finding, tuple(dict.fromkeys(added)), tuple((key, _said(value)) for key, value in finding.numbers.items())
    )


def _said(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(_said(each) for each in value)
    return str(value)
