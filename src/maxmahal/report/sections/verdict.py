"""First of all: how robust each model is, how sure that is, and which differences between models are real."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from markupsafe import Markup

from maxmahal.records.statistics import Comparison
from maxmahal.records.verdict import CLEAN, SeedSpread, Verdict, compare, seed_spreads
from maxmahal.report.render import Section, render
from maxmahal.report.subjects import Group, Subject, make_groups
from maxmahal.report.svg import element, picture
from maxmahal.report.wording import DASH, percent, short, typeset, whole

BADGES = {
    "held": "no sign of false robustness",
    "mended": "mended after warnings",
    "unresolved": "unresolved: an upper bound",
    "unchecked": "unchecked: an upper bound",
    "unfinished": "unfinished",
}
PROTOCOL = "the paper's protocol: no measure of robustness"


@dataclass(frozen=True)
class Card:
    """One model's verdict."""

    subject: Subject
    verdict: Verdict
    badge: str
    large: str
    """The robust accuracy, the bound that no survivor at all proves, or a dash before any attack has finished.

    Under the paper's protocol it is the plain worst case, none of the samples too, as the paper's tables have it.
    """
    about: str
    """What the large text is of: the threat, and the count where there is no interval."""
    interval: str
    success: str
    """Of the attacks; over none of the samples it is no bound either, for others may succeed."""
    gauge: Markup


@dataclass(frozen=True)
class Pair:
    """Two models that were attacked in the same way on the same images."""

    first: Subject
    second: Subject
    result: Comparison


def verdict_section(subjects: Sequence[Subject]) -> Section | None:
    """Cards, paired comparisons, and the spread over training seeds."""
    groups = make_groups(subjects)
    protocol_alone = all(subject.evaluation.comparison for subject in subjects)
    body = render(
        "sections/verdict.html.j2",
        cards=[_card(subject, subject.verdict) for subject in subjects if subject.verdict],
        pending=[subject for subject in subjects if not subject.verdict],
        pairs=[pair for group in groups for pair in _pairs(group)],
        spreads=_spreads(subjects),
        suites=_suites(subjects),
        worst="worst case" if protocol_alone else "robust accuracy",
    )
    return Section("verdict", "Verdict", "Verdict", body)


def _suites(subjects: Sequence[Subject]) -> list[str]:
    """What each suite says of itself, so that a first look is not taken for a measurement."""
    every = [subject.evaluation for subject in subjects]
    said = [f"{each.suite}, version {each.suite_version}: {each.suite_about}." for each in every if each.suite_about]
    return list(dict.fromkeys(said))


def _card(subject: Subject, verdict: Verdict) -> Card:
    comparison = subject.evaluation.comparison
    badge = PROTOCOL if comparison and subject.evaluation.finished else BADGES[verdict.trust]
    if not verdict.attacked:
        told = "no attack applies" if subject.evaluation.finished else "no attack has finished yet"
        return Card(subject, verdict, badge, DASH, f"{told} at {subject.threat}", "", DASH, Markup(""))
    shown = verdict.robust.with_interval if comparison else str(verdict.robust)
    large, _, interval = typeset(shown).partition(" [")
    count = f", {short(verdict.robust.count)} of {whole(verdict.robust.total)} samples"
    about = f"{'worst case' if comparison else 'robust'} at {subject.threat}{'' if interval else count}"
    interval = f"[{interval}" if interval else ""
    success = DASH if verdict.success is None else verdict.success.with_interval
    gauge = _gauge(verdict, "Worst case" if comparison else "Robust accuracy")
    return Card(subject, verdict, badge, large.removesuffix(" %"), about, interval, success, gauge)


def _gauge(verdict: Verdict, worst: str) -> Markup:
    """From 0 to 100 %: the interval as a bar, the worst case as a line, the clean accuracy as a hollow mark."""
    low, high = verdict.robust.interval
    robust, clean = verdict.robust.value, verdict.clean.value
    parts = [
        element("rect", class_="track", x=0, y=9, width=400, height=6, rx=3),
        element("rect", class_="span", x=400 * low, y=7, width=max(400 * (high - low), 3.0), height=10, rx=2),
        element("rect", class_="needle", x=_inside(400 * robust - 1.5), y=2, width=3, height=20, rx=1),
        element("circle", class_="clean", cx=min(max(400 * clean, 6.0), 394.0), cy=12, r=5),
    ]
    title = f"{worst} {percent(robust)} % between {percent(low)} and {percent(high)} %; clean {percent(clean)} %"
    return picture(title, parts, 400.0, 24.0, "gauge")


def _inside(left: float) -> float:
    return min(max(left, 0.0), 397.0)


def _pairs(group: Group) -> list[Pair]:
    finished = [subject for subject in group.subjects if subject.evaluation.finished and subject.verdict]
    return [
        Pair(first, second, compare(first.evaluation, second.evaluation))
        for first, second in combinations(finished, 2)
        if _same_images(first, second)
    ]


def _same_images(first: Subject, second: Subject) -> bool:
    one, other = first.evaluation, second.evaluation
    alike = one.data_fingerprint == other.data_fingerprint and one.samples == other.samples
    return alike and np.array_equal(one.stage(CLEAN).columns.sample, other.stage(CLEAN).columns.sample)


def _spreads(subjects: Sequence[Subject]) -> list[SeedSpread]:
    """Of finished evaluations alone: an unfinished one looks more robust than it is."""
    finished = [each for each in subjects if each.verdict and each.evaluation.finished]
    return seed_spreads([replace(each.evaluation, name=each.label) for each in finished])
