"""How accuracy falls as the threat or the effort grows: a curve that does not flatten means an attack not done yet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from markupsafe import Markup

from maxmahal.records.distances import is_minimum_norm
from maxmahal.records.types import StageRecords
from maxmahal.report.render import Section, render
from maxmahal.report.scales import Axis
from maxmahal.report.subjects import Group, Subject, make_groups
from maxmahal.report.svg import Chart
from maxmahal.report.wording import percent, short, whole

_DRAWN = 240  # points of an exact curve: more than its drawing has pixels to tell apart
_MARKED = 24
_WRITTEN = 32  # 255ths that people write as such
_ROOM = 0.12  # of the axis, for the name of a tick


@dataclass(frozen=True)
class Line:
    """One model in one chart, in shares."""

    subject: Subject
    xs: tuple[float, ...]
    ys: tuple[float, ...]

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """Point by point."""
        return list(zip(self.xs, self.ys, strict=True))


@dataclass(frozen=True)
class Curves:
    """One chart with the numbers behind it."""

    title: str
    note: str
    x_name: str
    chart: Markup
    lines: tuple[Line, ...]
    tabulated: bool


def curves_section(subjects: Sequence[Subject]) -> Section | None:
    """None where no finding holds a curve and no attack looked for the smallest distortion."""
    groups = [(group, _curves_of(group)) for group in make_groups(subjects)]
    shown = [(group, _drawn_in(group, curves), curves) for group, curves in groups if curves]
    if not shown:
        return None
    body = render("sections/curves.html.j2", groups=shown)
    return Section("curves", "Accuracy against epsilon and effort", "Curves", body)


def _drawn_in(group: Group, curves: list[Curves]) -> list[Subject]:
    labels = {line.subject.label for each in curves for line in each.lines}
    return [subject for subject in group.subjects if subject.label in labels]


def _curves_of(group: Group) -> list[Curves]:
    linf = group.subjects[0].evaluation.norm == "Linf"
    text = _as_written if linf else short
    wanted = [
        ("epsilon-growth", "epsilons", "accuracies", "epsilon", "A model that no epsilon breaks hides its gradients."),
        ("still-falling", "steps", "accuracy_by_steps", "steps", "Still falling at the right end: too few steps."),
        ("still-falling", "restarts", "accuracy_by_restarts", "restarts", "Still falling: too few restarts."),
    ]
    found = []
    for check, x_key, y_key, x_name, note in wanted:
        lines = [line for subject in group.subjects if (line := _from_findings(subject, check, x_key, y_key))]
        if lines:
            written = text if x_name == "epsilon" else short
            found.append(_draw(f"Accuracy against {x_name}", note, x_name, lines, written))
    return found + _exact_curves(group)


def _from_findings(subject: Subject, check: str, x_key: str, y_key: str) -> Line | None:
    for finding in subject.evaluation.findings:
        xs, ys = finding.numbers.get(x_key), finding.numbers.get(y_key)
        if finding.check == check and xs and ys and len(xs) == len(ys):
            return Line(subject, tuple(float(x) for x in xs), tuple(float(y) for y in ys))
    return None


def _draw(title: str, note: str, x_name: str, lines: list[Line], text: Callable[[float], str]) -> Curves:
    places = sorted({x for line in lines for x in line.xs})
    wide = places[-1] > 10 * max(min((place for place in places if place), default=0.0), 1e-12)
    scale: Literal["root", "linear"] = "root" if wide else "linear"
    name = f"{x_name} (square-root scale)" if wide else x_name
    axis = Axis(name, places[0], places[-1], scale, text)
    chart = Chart(title, replace(axis, at=_apart(places, axis)), _share_axis())
    for line in lines:
        chart.line(line.xs, line.ys, line.subject.slot)
        tips = [f"{line.subject.label}: {percent(y)} % at {x_name} {text(x)}" for x, y in line.pairs]
        chart.points(line.xs, line.ys, line.subject.slot, tips)
    return Curves(title, note, x_name, chart.render(), tuple(lines), True)


def _apart(places: list[float], axis: Axis) -> tuple[float, ...]:
    """Those of the measured places that have room for their names, from the far end on."""
    kept: list[float] = []
    for place in reversed(places):
        if not kept or axis.place(kept[-1]) - axis.place(place) >= _ROOM:
            kept.append(place)
    return tuple(reversed(kept))


def _exact_curves(group: Group) -> list[Curves]:
    stages: dict[str, list[tuple[Subject, StageRecords]]] = {}
    for subject in group.subjects:
        for stage in subject.evaluation.stages:
            if is_minimum_norm(stage) and _is_exact(stage):
                stages.setdefault(stage.name, []).append((subject, stage))
    return [_exact(members) for members in stages.values()]


def _is_exact(stage: StageRecords) -> bool:
    distances = stage.columns.distortion
    return stage.finished and len(distances) > 0 and bool(np.isfinite(distances).all())


def _exact(members: list[tuple[Subject, StageRecords]]) -> Curves:
    stage = members[0][1]
    norm = norm_of(members[0][0], stage)
    lines = [Line(subject, *survival(each.columns.distortion)) for subject, each in members]
    high = max(line.xs[-1] for line in lines) or 1.0
    name = f"distortion ({norm})"
    chart = Chart(
        f"Share of samples that {stage.title} needs more than a distortion for", Axis(name, 0.0, high), _share_axis()
    )
    for line in lines:
        chart.line(line.xs, line.ys, line.subject.slot, steps=True)
        some = np.unique(np.linspace(0, len(line.xs) - 1, _MARKED).astype(int))
        xs, ys = [line.xs[index] for index in some], [line.ys[index] for index in some]
        tips = [f"{line.subject.label}: {percent(y)} % beyond {short(x)}" for x, y in zip(xs, ys, strict=True)]
        chart.points(xs, ys, line.subject.slot, tips)
    total = whole(len(stage.columns))
    note = f"Exact: the share of {total} samples whose smallest found distortion lies beyond each epsilon."
    return Curves(f"{stage.title}: accuracy at every epsilon", note, name, chart.render(), tuple(lines), False)


def survival(distortions: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Distortions in rising order from 0, and the share of samples beyond each."""
    ordered = np.sort(distortions.astype(np.float64))
    places = np.unique(np.concatenate([[0.0], ordered]))
    if len(places) > _DRAWN:
        places = places[np.unique(np.linspace(0, len(places) - 1, _DRAWN).astype(int))]
    beyond = 1 - np.searchsorted(ordered, places, side="right") / len(ordered)
    return tuple(places.tolist()), tuple(beyond.tolist())


def norm_of(subject: Subject, stage: StageRecords) -> str:
    """In what a stage's distortions are measured: C&W's attack knows nothing but L2."""
    return str(stage.settings.get("norm") or ("L2" if stage.kind == "carlini" else subject.evaluation.norm))


def _share_axis() -> Axis:
    return Axis("accuracy in %", 0.0, 1.0, text=lambda share: f"{100 * share:.0f}")


def _as_written(epsilon: float) -> str:
    """Such as 8/255 or 16/256, where it is so many of them."""
    for parts in (255, 256):
        count = round(epsilon * parts)
        if 0 < count <= _WRITTEN and abs(epsilon * parts - count) < 1e-4:
            return f"{count}/{parts}"
    return short(epsilon)
