"""Figures of the page about trees: effects with intervals, the scan over C2/C1, and test accuracy by epoch."""

from collections.abc import Sequence

from maxmahal.report.chart import SERIES, Axis, Chart, Key, arranged
from paper.pages.study import METRICS, Judged, Metric, Results, effect, judge
from paper.pages.trees_scan import Apart, Beside, apart
from paper.pages.trees_study import (
    AT_MMC,
    GIVEN,
    LEARNED,
    MMC,
    NAMES,
    PLAIN_METRICS,
    RANDOM,
    STRICT_METRICS,
    TREES,
    Family,
)

_GREY = SERIES - 1
_SCANNED: tuple[Metric, ...] = ("clean", "near")
_SLOT, _LETTER = 120.0, 6.5  # the least width of a measure, and the width of a letter of its name
_APART = 0.14  # between two forms at one ratio
_PAIRED = "paired with MMC-10's predictions on the same images"
_ERRORS = "not paired, as two models make errors on different images"
_UNKNOWN = "not paired, as the summaries have no results per image"
_NOTE = (
    "Bars: 95 % intervals for the sampling of test images, {}; they do not include the effect of the training seed. "
    "Smaller ratios are in the table."
)
_ALTERNATIVES = {
    "trees-scan-clean.svg": "Clean accuracy of each form of hierarchical centers minus MMC-10, in points, over C2/C1",
    "trees-scan-near.svg": "Share of errors within the superclass minus MMC-10, in points, over C2/C1",
    "trees-effects.svg": "Differences to MMC-10 over seeds on the same images, measure by measure, with 95 % intervals",
    "trees-strict-effects.svg": "Differences to MMC-10 at 8/255 over seeds on the same images, with 95 % intervals",
    "trees-convergence.svg": "Test accuracy over the epochs of training, the mean over seeds, one line per arm",
}


def alternative(figure: str) -> str:
    """The alternative text of a figure."""
    return _ALTERNATIVES[figure]


def draw_figures(every: Sequence[Results], beside: Beside) -> dict[str, str]:
    """By file name; only figures that have data."""
    drawn: dict[str, str] = {}
    for results in every:
        judged = [judge(results, each) for each in results.study.contrasts if each.reference in (MMC, AT_MMC)]
        judged = [each for each in judged if each.verdict != "not run"]
        if judged:
            drawn[f"{results.study.name}-effects.svg"] = draw_effects(results, judged)
        if results.study.name == TREES.name:
            scans = {metric: draw_scan(results, metric, beside) for metric in _SCANNED}
            drawn |= {f"trees-scan-{metric}.svg": text for metric, text in scans.items() if text}
            drawn |= {"trees-convergence.svg": draw_curves(results)} if judged else {}
    return drawn


def draw_effects(results: Results, judged: Sequence[Judged]) -> str:
    """For each measure the differences to MMC with their intervals, arm beside arm."""
    metrics = STRICT_METRICS if results.study.name != TREES.name else PLAIN_METRICS
    arms = list(dict.fromkeys(each.contrast.arm for each in judged))
    titles = {arm.name: arm.title for arm in results.study.arms}
    ends = [end for each in judged for end in each.difference.interval]
    names = {float(place): NAMES[metric] for place, metric in enumerate(metrics)}
    chart = Chart(
        f"Difference to MMC ({results.study.epsilon}): mean and 95 % interval over {_seeds(judged)} on the same images",
        Axis("measure", -0.5, len(metrics) - 0.5, at=tuple(names), text=lambda place: names[place]),
        Axis("points; above 0 is better", min(*ends, 0.0) - 0.5, max(*ends, 0.0) + 0.5),
        width=90 + max(_SLOT, _LETTER * max(map(len, names.values()))) * len(metrics),
        height=360.0,
    )
    chart.line([-0.5, len(metrics) - 0.5], [0.0, 0.0], _GREY)
    for each in judged:
        slot = arms.index(each.contrast.arm)
        x = metrics.index(each.contrast.metric) + (slot - (len(arms) - 1) / 2) * 0.8 / max(len(arms), 1)
        low, high = each.difference.interval
        tip = f"{titles[each.contrast.arm]}, {NAMES[each.contrast.metric]}: {effect(each.difference)}"
        chart.line([x, x], [low, high], slot % _GREY)
        chart.points([x], [each.difference.mean], slot % _GREY, [tip])
    legend = [Key(f"s{slot % _GREY}", titles[arm]) for slot, arm in enumerate(arms)]
    return arranged(chart.title, [chart], legend=legend).file()


def draw_scan(results: Results, metric: Metric, beside: Beside) -> str:
    """How far each form is from MMC, ratio by ratio and form beside form; empty if there is nothing to compare."""
    families = (*GIVEN, LEARNED, RANDOM)
    found = [(slot, family, _beyond(results, family, metric, beside)) for slot, family in enumerate(families)]
    found = [each for each in found if each[2]]
    if not found:
        return ""
    every = [gap for _, _, gaps in found for gap in gaps.values()]
    ends = [end for gap in every for end in (gap.low, gap.high)]
    ratios = [value for value in LEARNED.values if any(value in gaps for _, _, gaps in found)]
    names = {float(place): value for place, value in enumerate(ratios)}
    chart = Chart(
        f"{METRICS[metric].capitalize()} beside MMC-10's, one training each",
        Axis("ratio C2/C1", -0.5, len(names) - 0.5, at=tuple(names), text=lambda place: names[place]),
        Axis("points more than MMC-10", min(*ends, 0.0) - 1, max(*ends, 0.0) + 1),
        width=620.0,
        height=420.0,
    )
    chart.line([-0.5, len(names) - 0.5], [0.0, 0.0], _GREY)
    for slot, family, gaps in found:
        for value, gap in gaps.items():
            x = ratios.index(value) + (slot - (len(families) - 1) / 2) * _APART
            chart.line([x, x], [gap.low, gap.high], slot)
            told = f"{gap.size:+.1f} points [{gap.low:+.1f}, {gap.high:+.1f}]".replace("-", "−")
            tip = f"{family.title}, ratio {value}: {told}{', paired' if gap.paired else ''}"
            chart.points([x], [gap.size], slot, [tip])
    legend = [Key(f"s{slot}", family.title) for slot, family, _ in found]
    note = _NOTE.format(_how(every, metric))
    return arranged(chart.title, [chart], 1, [*legend, Key(f"s{_GREY}", "MMC-10")], note).file()


def draw_curves(results: Results) -> str:
    """Test accuracy epoch by epoch, the mean over seeds, of the arms that were compared with MMC, and of MMC."""
    arms = dict.fromkeys(each.arm for each in results.study.contrasts if each.reference == MMC)
    curves = {arm: _curve(results, arm) for arm in (MMC, *arms)}
    titles = {arm.name: arm.title for arm in results.study.arms}
    longest = max(len(curve) for curve in curves.values())
    values = [value for curve in curves.values() for value in curve]
    chart = Chart(
        "Test accuracy while training, the mean over seeds",
        Axis("epoch", 0.0, float(longest)),
        Axis("test accuracy in %", 0.0, min(max(values) + 5, 100.0)),
        width=620.0,
        height=360.0,
    )
    for slot, curve in enumerate(curves.values()):
        chart.line([float(epoch) for epoch in range(1, len(curve) + 1)], curve, slot % SERIES)
    legend = [Key(f"s{slot % SERIES}", titles[arm]) for slot, arm in enumerate(curves)]
    return arranged(chart.title, [chart], legend=legend).file()


def _seeds(judged: Sequence[Judged]) -> str:
    counts = sorted({each.difference.n for each in judged})
    return f"{' to '.join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))} seeds"


def _how(gaps: Sequence[Apart], metric: Metric) -> str:
    """Whether the intervals are paired: all, none or some."""
    loose = sum(not gap.paired for gap in gaps)
    if not loose:
        return _PAIRED
    if loose == len(gaps):
        return _ERRORS if metric == "near" else _UNKNOWN
    return f"{_PAIRED}, but {loose} of {len(gaps)} {_UNKNOWN}"


def _beyond(results: Results, family: Family, metric: Metric, beside: Beside) -> dict[str, Apart]:
    """By ratio the difference to MMC and its interval, of the ratios that every form has."""
    found = {value: apart(results, f"{family.name}-{value}", MMC, metric, beside) for value in LEARNED.values}
    return {value: gap for value, gap in found.items() if gap is not None}


def _curve(results: Results, arm: str) -> list[float]:
    every = [run.test_accuracy for run in results.runs if run.arm == arm]
    shortest = min((len(each) for each in every), default=0)
    return [100 * sum(each[epoch] for each in every) / len(every) for epoch in range(shortest)]
