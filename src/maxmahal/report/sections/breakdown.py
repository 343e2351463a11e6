"""Which attack broke what: every sample of a model in one bar, by the first attack of the plan that broke it."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from maxmahal.records.types import Evaluation, StageRecords
from maxmahal.records.verdict import CLEAN, Verdict, stands
from maxmahal.report.render import Section, render
from maxmahal.report.sections.table import merged
from maxmahal.report.subjects import Subject, counted
from maxmahal.report.svg import element, picture
from maxmahal.report.wording import percent, whole

_WIDTH, _HEIGHT = 1000.0, 44.0


@dataclass(frozen=True)
class Part:
    """Some samples with one fate."""

    title: str
    count: int
    share: float
    kind: str
    """The style sheet's class: "wrong", "broke" or "stand"."""
    depth: int
    """How late in the plan, from 0 to 100: later attacks have the stronger colour."""


@dataclass(frozen=True)
class Bar:
    """One model."""

    subject: Subject
    parts: tuple[Part, ...]
    drawing: Markup
    total: int


def breakdown_section(subjects: Sequence[Subject]) -> Section | None:
    """None as long as no model has a single number."""
    order = merged([[stage.name for stage in _counting(subject.evaluation)] for subject in subjects])
    bars = [_bar(subject, subject.verdict, order) for subject in subjects if subject.verdict]
    if not bars:
        return None
    body = render("sections/breakdown.html.j2", bars=bars)
    return Section("breakdown", "Which attack broke what", "Breakdown", body)


def _bar(subject: Subject, verdict: Verdict, order: list[str]) -> Bar:
    total = verdict.clean.total
    standing = int(stands(subject.evaluation).sum())
    broke = {each.stage.name: each.broke for each in verdict.stages}
    counting = _counting(subject.evaluation)
    wrong = total - standing - sum(broke[stage.name] for stage in counting)
    parts = [_part("wrong from the start", wrong, total, "wrong", 0)]
    for stage in counting:
        depth = 100 * order.index(stage.name) // max(len(order) - 1, 1)
        parts.append(_part(stage.title, broke[stage.name], total, "broke", depth))
    parts.append(_part("standing", standing, total, "stand", 0))
    return Bar(subject, tuple(parts), _draw(subject, parts), total)


def _counting(evaluation: Evaluation) -> list[StageRecords]:
    ran = [stage for stage in counted(evaluation) if stage.counts]
    return [stage for stage in ran if stage.kind != CLEAN]


def _part(title: str, count: int, total: int, kind: str, depth: int) -> Part:
    return Part(title, count, count / total, kind, depth)


def _draw(subject: Subject, parts: list[Part]) -> Markup:
    drawn, left = [], 0.0
    for part in parts:
        width = _WIDTH * part.share
        word = f"broken by {part.title}" if part.kind == "broke" else part.title
        tip = f"{subject.label}: {whole(part.count)} samples ({percent(part.share)} %) {word}"
        if part.count:
            drawn.append(
                element(
                    "rect",
                    class_=f"part {part.kind}",
                    style=f"--t:{part.depth}%",
                    x=left,
                    y=0,
                    width=width,
                    height=_HEIGHT,
                    data_tip=tip,
                )
            )
        left += width
    return picture(f"Fate of the samples of {subject.label}", drawn, _WIDTH, _HEIGHT, "stack", stretch=True)
