"""paper/results/uncertainty.md: is MMC's loss a reliable measure of uncertainty? Judged from the record alone."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from maxmahal.report.chart import Axis, Chart, Key, arranged
from maxmahal.uncertainty import SCORES, ScoreResult, UncertaintyRecord, read_record
from paper.pages.paired import ENOUGH, POINT, Difference, paired
from paper.pages.study import effect, spread
from paper.pages.text import NOT_RUN, markdown_table, render

RECORD = "uncertainty.json"
FIGURE = "variants-uncertainty.svg"
GOOD = 90.0  # AUROC in percent from which a score is called reliable
_CLAIMED, _BASELINE = ("mmc", "loss"), ("sce", "softmax")
_TITLES = {score.name: score.title for score in SCORES}
_SHOWN = (_CLAIMED, ("mmc", "softmax"), _BASELINE, ("sce", "energy"))
_APART = 0.05


@dataclass(frozen=True)
class Task:
    """One thing that a measure of uncertainty should detect."""

    title: str
    value: Callable[[ScoreResult], float]
    hidden: bool = False
    """Whether the attack knows the score."""

    def of(self, record: UncertaintyRecord, loss: str, score: str) -> dict[int, float]:
        """AUROC in percent by training seed; a model without errors has none on errors."""
        found = {model.seed: each for model in record.models if model.loss == loss and (each := model.of(score))}
        values = {seed: 100 * self.value(each) for seed, each in found.items()}
        return {seed: value for seed, value in values.items() if not math.isnan(value)}


def tasks(record: UncertaintyRecord) -> list[Task]:
    """Errors, out-of-distribution images, an attack that ignores the score, and one that evades it."""
    return [
        Task("own errors", lambda each: each.misclassification),
        *(Task(f"{name} images", _ood(name)) for name in record.ood),
        Task("attack that ignores the score", lambda each: each.ignoring.auroc),
        Task("attack that evades the score", lambda each: each.evading.auroc, hidden=True),
    ]


@dataclass(frozen=True)
class Judged:
    """One task: MMC's loss against SCE's largest softmax."""

    task: Task
    ours: float
    """Mean AUROC in percent."""
    theirs: float
    difference: Difference

    @property
    def passed(self) -> bool:
        """Whether the loss is good, and not worse than the baseline."""
        return self.ours >= GOOD and self.difference.verdict() != "hurts"


def judge_tasks(record: UncertaintyRecord) -> list[Judged]:
    """Every task that both were measured on with enough seeds."""
    found = []
    for task in tasks(record):
        ours, theirs = task.of(record, *_CLAIMED), task.of(record, *_BASELINE)
        difference = paired(ours, theirs)
        if difference.verdict() != NOT_RUN:
            found.append(Judged(task, _mean(ours), _mean(theirs), difference))
    return found


def uncertainty_verdict(judged: Sequence[Judged]) -> str:
    """Holds if every task is passed, in part if some are."""
    passed = [each.passed for each in judged]
    if not passed:
        return "not measured"
    return "holds" if all(passed) else "holds in part" if any(passed) else "does not hold"


def uncertainty_pages(results: Path) -> dict[str, str]:
    """The page and its figure by their places under the folder of results; none if there is no record."""
    if not (results / RECORD).exists():
        return {}
    record = read_record(results / RECORD)
    return {"uncertainty.md": uncertainty_page(record), f"figures/{FIGURE}": draw_uncertainty(record)}


def uncertainty_page(record: UncertaintyRecord) -> str:
    """The whole page."""
    judged = judge_tasks(record)
    *_, ignoring, evading = tasks(record)
    return render(
        "uncertainty",
        record=record,
        seeds=len({model.seed for model in record.models}),
        data=sorted({f"{model.samples:,} test images of {model.data}" for model in record.models}),
        judged=judged,
        verdict=uncertainty_verdict(judged),
        passed=[each.task.title for each in judged if each.passed],
        failed=[each.task.title for each in judged if not each.passed],
        ignoring=_mean(ignoring.of(record, *_CLAIMED)),
        evading=_mean(evading.of(record, *_CLAIMED)),
        drop=effect(paired(evading.of(record, *_CLAIMED), ignoring.of(record, *_CLAIMED))),
        effect=effect,
        good=GOOD,
        least=POINT,
        enough=ENOUGH,
        figure=FIGURE,
        scores=_scores_table(record),
        kinds=list(dict.fromkeys(each.score for model in record.models for each in model.scores)),
        titles=_TITLES,
    )


def draw_uncertainty(record: UncertaintyRecord) -> str:
    """One dot per seed for every task, four scores side by side."""
    every = tasks(record)
    names = {float(place): _tick(task) for place, task in enumerate(every)}
    dots = [
        (place + _APART * (2.5 * slot - 3.75 + order - 1), value, slot, f"{_said(*which)}, seed {seed}: {value:.1f} %")
        for place, task in enumerate(every)
        for slot, which in enumerate(_SHOWN)
        for order, (seed, value) in enumerate(sorted(task.of(record, *which).items()))
    ]
    low = max(min((value for _, value, _, _ in dots), default=50.0) - 4, 0.0)
    across = Axis("task", -0.5, len(every) - 0.5, at=tuple(names), text=lambda place: names[place])
    chart = Chart(
        "AUROC of scores of uncertainty, one dot per seed",
        across,
        Axis("AUROC in %", low, 100.0),
        width=90 + 110.0 * len(every),
        height=340.0,
    )
    for x, value, slot, tip in dots:
        chart.points([x], [value], slot, [tip])
    legend = [Key(f"s{slot}", _said(*which)) for slot, which in enumerate(_SHOWN)]
    return arranged(chart.title, [chart], legend=legend).file()


def _ood(name: str) -> Callable[[ScoreResult], float]:
    return lambda each: each.ood[name]


def _tick(task: Task) -> str:
    return "evading attack" if task.hidden else task.title.removesuffix(" that ignores the score")


def _said(loss: str, score: str) -> str:
    return f"{loss.upper()}, {_TITLES.get(score, score)}"


def _scores_table(record: UncertaintyRecord) -> str:
    every = tasks(record)
    kinds = list(dict.fromkeys((model.loss, each.score) for model in record.models for each in model.scores))
    body = []
    for loss, score in kinds:
        found = [each for model in record.models if model.loss == loss and (each := model.of(score))]
        undetected = 100 * sum(each.evading.undetected for each in found) / len(found)
        cells = [spread(task.of(record, loss, score).values()) for task in every]
        body.append([_said(loss, score), *cells, f"{undetected:.1f}"])
    return markdown_table(["AUROC in %", *(task.title for task in every), "undetected, %"], body)


def _mean(values: dict[int, float]) -> float:
    return Difference(tuple(values.values())).mean
