"""paper/results/uncertainty.md: is MMC's loss a reliable measure of uncertainty? Judged from the record alone."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from maxmahal.report.scales import Axis
from maxmahal.report.svg import Chart
from maxmahal.report.wording import listed
from maxmahal.uncertainty import SCORES, Record, ScoreResult
from paper.pages.drawing import with_legend
from paper.pages.judging import POINT, Judgement, Verdict
from paper.pages.paired import ENOUGH_SEEDS, Difference, paired
from paper.pages.tables import markdown
from paper.pages.variants.rules import effect

FIGURE = "variants-uncertainty.svg"
GOOD = 90.0  # AUROC in percent from which a score is called reliable
_CLAIMED, _BASELINE = ("mmc", "loss"), ("sce", "softmax")
_TITLES = {score.name: score.title for score in SCORES}
_SHOWN = (_CLAIMED, ("mmc", "softmax"), _BASELINE, ("sce", "energy"))
_APART = 0.05


@dataclass(frozen=True)
class Task:
    """One thing that a measure of uncertainty should notice."""

    title: str
    value: Callable[[ScoreResult], float]
    hidden: bool = False
    """Whether the attacker knows of the score."""

    def of(self, record: Record, loss: str, score: str) -> dict[int, float]:
        """AUROC in percent by training seed, where there is one: a model without mistakes has none on mistakes."""
        found = {model.seed: each for model in record.models if model.loss == loss and (each := model.of(score))}
        values = {seed: 100 * self.value(each) for seed, each in found.items()}
        return {seed: value for seed, value in values.items() if not math.isnan(value)}


def tasks(record: Record) -> list[Task]:
    """Mistakes, strangers, an attack that does not know, and one that does."""
    return [
        Task("own mistakes", lambda each: each.misclassification),
        *(Task(f"{name} images", _stranger(name)) for name in record.strangers),
        Task("attack that ignores the score", lambda each: each.ignoring.auroc),
        Task("attack that evades the score", lambda each: each.evading.auroc, hidden=True),
    ]


def judge_uncertainty(record: Record) -> Judgement:
    """Holds if the loss is good and not behind SCE's softmax on every task, in part if on some, else not."""
    rows: list[list[str]] = []
    passed: list[str] = []
    failed: list[str] = []
    for task in tasks(record):
        ours, theirs = task.of(record, *_CLAIMED), task.of(record, *_BASELINE)
        difference = paired(ours, theirs)
        verdict = difference.verdict()
        if verdict == "not run":
            rows.append([task.title, "not run", "not run", "not run", "not run"])
            continue
        good = _mean(ours) >= GOOD and verdict != "hurts"
        (passed if good else failed).append(task.title)
        rows.append([task.title, f"{_mean(ours):.1f}", f"{_mean(theirs):.1f}", effect(difference), verdict])
    shown = markdown(["AUROC in %", "MMC, its loss", "SCE, max softmax", "difference", "MMC's loss"], rows)
    if not passed and not failed:
        return Judgement("not measured", f"SCE and MMC were not both studied with {ENOUGH_SEEDS} or more.", shown)
    outcome: Verdict = "holds" if not failed else "holds in part" if passed else "does not hold"
    told = [f"passes: {listed(passed)}"] if passed else []
    told += [f"fails: {listed(failed)}"] if failed else []
    return Judgement(outcome, f"MMC's loss {'; '.join(told)}.", shown)


def uncertainty_page(record: Record) -> str:
    """The whole page."""
    judged = judge_uncertainty(record)
    seeds = len({model.seed for model in record.models})
    data = listed(sorted({f"{model.samples:,} test images of {model.data}" for model in record.models}))
    parts = [
        "# Is the loss of MMC a reliable measure of uncertainty?",
        "Written by `paper/publish.py` from [uncertainty.json](uncertainty.json); no number is typed by hand. "
        f"{len(record.models)} models, {seeds} training seeds, {data}; attacks are APGD-{record.steps} at Linf "
        f"{record.epsilon}, every one adapted to the model; the evading one also knows the score and, once the model "
        "is wrong, makes it as certain as it can.",
        "**The paper** (Sec. 3.3): the value of the MMC loss is a reliable metric of the uncertainty of a prediction.",
        f"**Verdict: {judged.verdict}.** {judged.reason}",
        judged.evidence,
        f"*Rule:* a task is passed if the mean AUROC of the predicted class's loss is at least {GOOD:g} % and not "
        f"behind that of SCE's largest softmax (95 % t interval over seeds without zero, and {POINT:g} point or "
        "more). It holds if all tasks are passed, in part if some are.",
        f"![AUROC of scores by task](figures/{FIGURE})",
        "## Every score",
        _scores_table(record),
        "*Undetected*: the share of all test images that the evading attack turns wrong while the score stays below "
        "the alarm that 5 % of clean images set off.",
        "## Calibration and selective prediction",
        _risk_table(record),
        f"*What would change this:* {_change(record)}",
    ]
    return "\n\n".join(parts) + "\n"


def draw_uncertainty(record: Record) -> str:
    """A dot a seed for every task, four scores side by side."""
    every = tasks(record)
    names = {float(place): _tick(task) for place, task in enumerate(every)}
    dots = [
        (place + _APART * (2.5 * slot - 3.75 + order - 1), value, slot, f"{_said(*which)}, seed {seed}: {value:.1f} %")
        for place, task in enumerate(every)
        for slot, which in enumerate(_SHOWN)
        for order, (seed, value) in enumerate(sorted(task.of(record, *which).items()))
    ]
    low = max(min((value for _, value, _, _ in dots), default=50.0) - 4, 0.0)
    across = Axis("what has to be noticed", -0.5, len(every) - 0.5, at=tuple(names), text=lambda place: names[place])
    chart = Chart(
        "AUROC of scores of uncertainty, a dot a seed",
        across,
        Axis("AUROC in %", low, 100.0),
        width=90 + 110.0 * len(every),
        height=340.0,
    )
    for x, value, slot, tip in dots:
        chart.points([x], [value], slot, [tip])
    return with_legend(chart, [(slot, _said(*which)) for slot, which in enumerate(_SHOWN)])


def _stranger(name: str) -> Callable[[ScoreResult], float]:
    return lambda each: each.strangers[name]


def _tick(task: Task) -> str:
    return "evading attack" if task.hidden else task.title.removesuffix(" that ignores the score")


def _said(loss: str, score: str) -> str:
    return f"{loss.upper()}, {_TITLES.get(score, score)}"


def _scores_table(record: Record) -> str:
    every = tasks(record)
    kinds = list(dict.fromkeys((model.loss, each.score) for model in record.models for each in model.scores))
    body = []
    for loss, score in kinds:
        found = [each for model in record.models if model.loss == loss and (each := model.of(score))]
        undetected = 100 * sum(each.evading.undetected for each in found) / len(found)
        cells = [_spread(task.of(record, loss, score)) for task in every]
        body.append([_said(loss, score), *cells, f"{undetected:.1f}"])
    return markdown(["AUROC in %", *(task.title for task in every), "undetected, %"], body)


def _risk_table(record: Record) -> str:
    """Areas in percent: the mean share of wrong answers over all coverages, beside the best possible."""
    body = []
    for model in record.models:
        areas = ", ".join(f"{_TITLES.get(each.score, each.score)} {100 * each.risk_area:.2f}" for each in model.scores)
        accuracy, error = f"{100 * model.accuracy:.1f}", f"{100 * model.calibration_error:.1f}"
        body.append([model.name, accuracy, error, areas, f"{100 * model.best_risk_area:.2f}"])
    header = ["model", "accuracy", "calibration error, points", "area under risk and coverage, %", "best possible"]
    return markdown(header, body)


def _change(record: Record) -> str:
    *_, ignoring, evading = tasks(record)
    drop = paired(evading.of(record, *_CLAIMED), ignoring.of(record, *_CLAIMED))
    return (
        f"knowing the score changes the attack's detection by MMC's loss by {effect(drop)}; a stronger evading attack "
        "can only lower it further, and other data may move all of it."
    )


def _mean(values: dict[int, float]) -> float:
    return Difference(tuple(values.values())).mean


def _spread(values: dict[int, float]) -> str:
    found = Difference(tuple(values.values()))
    return "–" if not found.n else f"{found.mean:.1f} ± {found.deviation:.1f}" if found.n > 1 else f"{found.mean:.1f}"
