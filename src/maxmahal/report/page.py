"""The report page: one HTML file that needs only a browser, and no JavaScript to be read or printed."""

from collections.abc import Sequence
from pathlib import Path

from maxmahal.files import write_text_atomically
from maxmahal.records.types import Evaluation
from maxmahal.report.layout import ReportedModel, html_page, reported_models
from maxmahal.report.sections import SECTIONS, make_section
from maxmahal.report.wording import listed, whole


def write_page(evaluations: Sequence[Evaluation], path: Path) -> None:
    """Everything that the records say about these models, as one self-contained page."""
    write_text_atomically(path, render_page(evaluations))


def render_page(evaluations: Sequence[Evaluation]) -> str:
    """The page's HTML."""
    models = reported_models(evaluations)
    found = {key: values(models) for key, (_, _, values) in SECTIONS.items()}
    sections = [make_section(key, values) for key, values in found.items() if values]
    unfinished = [model for model in models if not model.evaluation.finished]
    return html_page(_title(models), _subtitle(models), sections, unfinished)


def _title(models: Sequence[ReportedModel]) -> str:
    names = [model.label for model in models]
    return f"Robustness of {listed(names)}" if len(names) <= 2 else f"Robustness of {len(names)} models"


def _subtitle(models: Sequence[ReportedModel]) -> list[str]:
    evaluations = [model.evaluation for model in models]
    counts = sorted({each.samples for each in evaluations})
    return [
        listed(list(dict.fromkeys(each.data for each in evaluations))),
        listed(list(dict.fromkeys(model.threat for model in models))),
        f"suite {listed(list(dict.fromkeys(each.suite for each in evaluations)))}",
        f"{listed([whole(count) for count in counts])} samples",
    ]
