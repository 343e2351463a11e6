"""The report page: one HTML file that needs nothing but a browser, and no JavaScript to be read or printed."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from maxmahal.files import write_text_atomically
from maxmahal.records.types import Evaluation
from maxmahal.report.render import asset, render
from maxmahal.report.sections import SECTIONS
from maxmahal.report.subjects import Subject, make_subjects
from maxmahal.report.wording import listed, whole
from maxmahal.version import __version__


@dataclass(frozen=True)
class Progress:
    """How far an unfinished evaluation has come."""

    subject: Subject
    stages: int
    planned: int
    done: int
    samples: int
    """How many attacks on a sample the plan holds, as far as it is known."""


def write_page(evaluations: Sequence[Evaluation], path: Path) -> None:
    """Everything the records say about these models, as one self-contained page."""
    write_text_atomically(path, render_page(evaluations))


def render_page(evaluations: Sequence[Evaluation]) -> str:
    """The page's HTML."""
    subjects = make_subjects(evaluations)
    sections = [section for make in SECTIONS if (section := make(subjects))]
    script = asset("script.js")
    page = render(
        "template.html.j2",
        title=_title(subjects),
        subtitle=_subtitle(subjects),
        sections=sections,
        unfinished=[_progress(subject) for subject in subjects if not subject.evaluation.finished],
        style=Markup(asset("style.css")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
        version=__version__,
    )
    return str(page)


def _title(subjects: Sequence[Subject]) -> str:
    names = [subject.label for subject in subjects]
    return f"Robustness of {listed(names)}" if len(names) <= 2 else f"Robustness of {len(names)} models"


def _subtitle(subjects: Sequence[Subject]) -> list[str]:
    evaluations = [subject.evaluation for subject in subjects]
    counts = sorted({each.samples for each in evaluations})
    return [
        listed(list(dict.fromkeys(each.data for each in evaluations))),
        listed(list(dict.fromkeys(subject.threat for subject in subjects))),
        f"suite {listed(list(dict.fromkeys(each.suite for each in evaluations)))}",
        f"{listed([whole(count) for count in counts])} samples",
    ]


def _progress(subject: Subject) -> Progress:
    stages = [stage for stage in subject.evaluation.stages if not stage.skipped]
    return Progress(
        subject,
        sum(stage.finished for stage in stages),
        len(stages),
        sum(len(stage.columns) for stage in stages),
        sum(max(stage.planned, len(stage.columns)) for stage in stages),
    )
