"""A study: ways of training compared seed by seed. What is compared, what was measured, and what that shows."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from maxmahal.records.statistics import Rate
from paper.pages.paired import EQUAL, POINT, Difference, Verdict, paired, survives_correction
from paper.pages.text import NOT_RUN, counted, difference, markdown_table
from paper.summaries.severity import Severity

Metric = Literal["clean", "worst", "early", "superclass", "near", "worst-superclass", "worst-near"]
METRICS: dict[Metric, str] = {
    "clean": "clean accuracy",
    "worst": "worst-case accuracy",
    "early": "test accuracy over the first epochs",
    "superclass": "superclass accuracy",
    "near": "share of errors within the superclass",
    "worst-superclass": "worst-case superclass accuracy",
    "worst-near": "share of worst-case errors within the superclass",
}
Expected = Literal["helps", "hurts", "equal", "does not help"]
Outcome = Literal[
    "came true", "came true, small", "came true in part", "came true in part, small", "did not come true", "undecided",
    "not run",
]  # fmt: skip
EARLY = 5  # epochs that count as early in a training of twenty
DAGGER = "†"
"""Marks a difference that does not survive the correction for the number of comparisons."""


@dataclass(frozen=True)
class Arm:
    """One way of training; its runs are called NAME-seed0, NAME-seed1, ..."""

    name: str
    title: str
    tick: str
    """For a figure's axis, where there is little room."""


@dataclass(frozen=True)
class Contrast:
    """One arm against another in one measure."""

    arm: str
    reference: str
    metric: Metric


@dataclass(frozen=True)
class Prediction:
    """What the paper expects of some contrasts; the page's template says it in words."""

    contrasts: tuple[Contrast, ...]
    expected: Expected


@dataclass(frozen=True)
class Study:
    """One grid, or several that share their models."""

    name: str
    title: str
    arms: tuple[Arm, ...]
    contrasts: tuple[Contrast, ...] = ()
    predictions: tuple[Prediction, ...] = ()
    suite: str = "variants"
    epsilon: str = ""
    """Which evaluations to take if the suite was run with several; empty if it was run with one."""
    superclasses: tuple[int, ...] = ()
    """Of every class, if the severity of errors is measured."""

    def arm_title(self, name: str) -> str:
        """Of the arm with that name."""
        return next(arm.title for arm in self.arms if arm.name == name)

    @property
    def comparisons(self) -> tuple[Contrast, ...]:
        """All that the page shows; some measures are compared for a prediction only."""
        return tuple(dict.fromkeys([*self.contrasts, *(each for one in self.predictions for each in one.contrasts)]))


def against(reference: str, arms: Sequence[str], *metrics: Metric) -> tuple[Contrast, ...]:
    """Each arm against one reference in each measure."""
    return tuple(Contrast(arm, reference, metric) for metric in metrics for arm in arms)


@dataclass(frozen=True)
class Run:
    """One training of an arm and its evaluation."""

    arm: str
    seed: int
    settings: dict[str, Any]
    """Those in which the study's runs differ."""
    clean: Rate
    robust: Rate
    stages: dict[str, Rate]
    """Accuracy under each attack that ran on every sample."""
    test_accuracy: tuple[float, ...]
    """After each epoch."""
    validation: float | None = None
    """On held-out images after the last epoch, under PGD-10 if training is adversarial; arms are chosen by it."""
    mistakes: dict[str, Severity] = field(default_factory=dict)
    """Errors on "clean" images and in the "worst" case, if the study has superclasses."""
    centers: dict[str, float] = field(default_factory=dict)
    """"shortest" and "longest" length; distance between the "nearest" two, and "across" superclasses."""
    fingerprint: str = ""
    """Of its weights; empty in old files."""

    @property
    def name(self) -> str:
        """Of its folder and its summaries."""
        return f"{self.arm}-seed{self.seed}"

    def value(self, metric: Metric) -> float:
        """In percent; NaN if it was not measured or does not exist, such as the severity of no errors."""
        if metric == "early":
            first = self.test_accuracy[:EARLY]
            return 100 * sum(first) / len(first)
        rate = self.rate(metric)
        return math.nan if rate is None else 100 * rate.value

    def rate(self, metric: Metric) -> Rate | None:
        """A share of images; None if it does not exist."""
        if metric in ("clean", "worst"):
            return self.clean if metric == "clean" else self.robust
        found = self.mistakes.get("worst" if metric.startswith("worst-") else "clean")
        if found is None or metric == "early":
            return None
        return found.superclass_accuracy if metric.endswith("superclass") else found.within


@dataclass(frozen=True)
class Results:
    """Everything measured of one study; no runs if it was not run."""

    study: Study
    about: dict[str, Any]
    """Suite, norm, epsilon, samples."""
    runs: tuple[Run, ...]
    shared: dict[str, Any] = field(default_factory=dict)
    """Settings that all runs have in common, by names such as "train.epochs"."""
    kept: frozenset[Contrast] = frozenset()
    """Comparisons that survive the correction for their number."""

    def of(self, arm: str, metric: Metric) -> dict[int, float]:
        """The arm's values by seed."""
        values = {run.seed: run.value(metric) for run in self.runs if run.arm == arm}
        return {seed: value for seed, value in values.items() if not math.isnan(value)}


def from_table(study: Study, content: Mapping[str, Any]) -> Results:
    """Results from the content of a study's file."""
    runs = tuple(
        Run(
            arm=each["arm"],
            seed=int(each["seed"]),
            settings=dict(each["settings"]),
            clean=_rate(each["clean"]),
            robust=_rate(each["robust"]),
            stages={name: _rate(rate) for name, rate in each["stages"].items()},
            test_accuracy=tuple(float(share) for share in each["test_accuracy"]),
            validation=each.get("validation"),
            mistakes={name: Severity(tuple(counts)) for name, counts in each.get("mistakes", {}).items()},
            centers={name: float(value) for name, value in each.get("centers", {}).items()},
            fingerprint=str(each.get("fingerprint", "")),
        )
        for each in content["runs"]
    )
    return Results(study, dict(content["about"]), runs, dict(content.get("shared", {})))


def _rate(table: list[float | int]) -> Rate:
    count, total = table
    return Rate(float(count), int(total))


@dataclass(frozen=True)
class Judged:
    """One comparison with its verdict."""

    contrast: Contrast
    difference: Difference
    kept: bool
    """Whether it survives the correction for the number of comparisons."""

    @property
    def verdict(self) -> Verdict | Literal["may be chance"]:
        """Whether the arm helps or hurts against its reference."""
        found = self.difference.verdict()
        return "may be chance" if found in ("helps", "hurts", "true, small") and not self.kept else found

    @property
    def dagger(self) -> str:
        """Marks a difference that may be chance."""
        return DAGGER if self.verdict == "may be chance" else ""


def judge(results: Results, contrast: Contrast) -> Judged:
    """One arm against another over the seeds that both have."""
    ours, theirs = (results.of(arm, contrast.metric) for arm in (contrast.arm, contrast.reference))
    return Judged(contrast, paired(ours, theirs), contrast in results.kept)


def judged_of(results: Results, arms: Sequence[str], references: Sequence[str]) -> list[Judged]:
    """Comparisons of these arms with these references that have enough seeds."""
    wanted = [each for each in results.study.contrasts if each.arm in arms and each.reference in references]
    return [found for each in wanted if (found := judge(results, each)).verdict != NOT_RUN]


def is_run(results: Results) -> bool:
    """Whether any comparison can be made; a reference alone, which other studies share, is none."""
    return any(judge(results, contrast).verdict != NOT_RUN for contrast in results.study.contrasts)


def corrected(every: Sequence[Results]) -> list[Results]:
    """All studies of a page, with the comparisons that survive the correction for the number of all of them."""
    made = [(place, one) for place, results in enumerate(every) for one in _made(results)]
    lasts = survives_correction(one.difference.p_value for _, one in made)
    kept = [(place, one.contrast) for (place, one), stays in zip(made, lasts, strict=True) if stays]
    return [
        replace(results, kept=frozenset(contrast for at, contrast in kept if at == place))
        for place, results in enumerate(every)
    ]


def _made(results: Results) -> list[Judged]:
    judged = [judge(results, contrast) for contrast in results.study.comparisons]
    return [one for one in judged if one.verdict != NOT_RUN]


class Tally(NamedTuple):
    """How many comparisons a page makes."""

    made: int
    leave_out_zero: int
    at_least_a_point: int
    kept: int
    """Survive the correction."""
    daggers: int


def tally(every: Sequence[Results]) -> Tally:
    """Over all studies of a page, corrected together."""
    made = [one for results in every for one in _made(results)]
    return Tally(
        len(made),
        sum(one.difference.leaves_out_zero for one in made),
        sum(one.difference.verdict() in ("helps", "hurts") for one in made),
        sum(one.kept for one in made),
        sum(bool(one.dagger) for one in made),
    )


def outcome(results: Results, prediction: Prediction) -> Outcome:
    """Whether a prediction came true, over all comparisons that it is about."""
    seen = {_meets(judge(results, contrast), prediction.expected) for contrast in prediction.contrasts}
    if NOT_RUN in seen:
        return "not run"
    true = seen & {"came true", "came true, small"}
    if not true:
        return seen.pop() if len(seen) == 1 else "did not come true"
    if seen == true:
        return "came true" if "came true" in true else "came true, small"
    return "came true in part" if "came true" in true else "came true in part, small"


def _meets(judged: Judged, expected: Expected) -> Outcome:
    verdict, (low, high) = judged.verdict, judged.difference.interval
    if verdict == "not run":
        return "not run"
    equal = low > -EQUAL and high < EQUAL
    if expected == "equal":
        return "did not come true" if verdict in ("helps", "hurts") else "came true" if equal else "undecided"
    if expected == "does not help":
        if verdict == "helps":
            return "did not come true"
        return "came true" if verdict == "hurts" or high < EQUAL else "undecided"
    if verdict == "true, small":
        return "came true, small" if (judged.difference.mean > 0) == (expected == "helps") else "did not come true"
    if verdict in ("helps", "hurts"):
        return "came true" if verdict == expected else "did not come true"
    # An interval so narrow that the predicted effect would have been seen refutes it; a wide one decides nothing.
    return "did not come true" if equal else "undecided"


def effect(found: Difference) -> str:
    """ "+1.2 points [−0.3, +2.7], n = 3"."""
    if found.n < 2:
        return NOT_RUN
    mean, ends = difference(found.mean, found.interval).split(" ", 1)
    return f"{mean} points {ends}, n = {found.n}"


def spread(values: Iterable[float]) -> str:
    """Mean ± standard deviation over seeds."""
    found = Difference(tuple(values))
    if not found.n:
        return NOT_RUN
    return f"{found.mean:.1f} ± {found.deviation:.1f}" if found.n > 1 else f"{found.mean:.1f}"


def comparison_cell(judged: Judged | None) -> str:
    """Mean difference and interval: bold from one point on, with a dagger if it may be chance."""
    if judged is None:
        return "–"
    if judged.verdict == NOT_RUN:
        return NOT_RUN
    text = difference(judged.difference.mean, judged.difference.interval)
    bold = abs(judged.difference.mean) >= POINT and judged.difference.leaves_out_zero
    return f"**{text}**{judged.dagger}" if bold else f"{text}{judged.dagger}"


def comparison_table(
    results: Results, contrasts: Sequence[Contrast], names: Mapping[Metric, str], reference: str = ""
) -> str:
    """A row for each pair of arms and a column for each measure; pairs without enough seeds are left out.

    With one ``reference`` its own values are the first row.
    """
    judged = {each: found for each in contrasts if (found := judge(results, each)).verdict != NOT_RUN}
    if not judged:
        return NOT_RUN
    metrics = list(dict.fromkeys(each.metric for each in judged))
    seeds = counted("seed", *(one.difference.n for one in judged.values()))
    title = results.study.arm_title
    rows = (
        [[title(reference), *(spread(results.of(reference, each).values()) for each in metrics)]] if reference else []
    )
    for arm, other in dict.fromkeys((each.arm, each.reference) for each in judged):
        cells = [comparison_cell(judged.get(Contrast(arm, other, metric))) for metric in metrics]
        rows.append([title(arm) if reference else f"{title(arm)} vs {title(other)}", *cells])
    to = f" to {title(reference)}" if reference else ""
    return markdown_table([f"difference{to} in points, {seeds}", *(names[metric] for metric in metrics)], rows)
