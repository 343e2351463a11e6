"""Figures of the page about trees: effects with intervals, the scan over C2/C1, and how fast arms learn."""

from collections.abc import Sequence

from maxmahal.report.published.drawing import COLOURS, with_legend
from maxmahal.report.published.trees_rules import SCAN_SEED
from maxmahal.report.published.trees_study import (
    AT_MMC,
    GIVEN,
    LEARNED,
    MMC,
    PLAIN_METRICS,
    RANDOM,
    STRICT_METRICS,
    TREES,
    Family,
)
from maxmahal.report.published.variants.results import Results
from maxmahal.report.published.variants.rules import Judged, effect, judge
from maxmahal.report.published.variants.spec import METRICS, Metric
from maxmahal.report.scales import Axis
from maxmahal.report.svg import Chart

_GREY = COLOURS - 1
_SHORT: dict[Metric, str] = {
    "clean": "clean",
    "superclass": "superclass",
    "near": "near mistakes",
    "worst": "worst case",
    "early": "first epochs",
    "worst-superclass": "worst superclass",
    "worst-near": "near, attacked",
}
_SCANNED: tuple[Metric, ...] = ("clean", "near")


def draw_figures(every: Sequence[Results]) -> dict[str, str]:
    """By file name; only what there is data for."""
    drawn: dict[str, str] = {}
    for results in every:
        judged = [judge(results, each) for each in results.study.contrasts if each.reference in (MMC, AT_MMC)]
        judged = [each for each in judged if each.verdict != "not run"]
        if judged:
            drawn[f"{results.study.name}-effects.svg"] = draw_effects(results, judged)
        if results.study.name == TREES.name:
            scans = {metric: draw_scan(results, metric) for metric in _SCANNED}
            drawn |= {f"trees-scan-{metric}.svg": text for metric, text in scans.items() if text}
            drawn |= {"trees-convergence.svg": draw_curves(results)} if judged else {}
    return drawn


def draw_effects(results: Results, judged: Sequence[Judged]) -> str:
    """For each measure the differences to MMC with their intervals, arm beside arm."""
    metrics = STRICT_METRICS if results.study.name != TREES.name else PLAIN_METRICS
    arms = list(dict.fromkeys(each.contrast.arm for each in judged))
    titles = {arm.name: arm.title for arm in results.study.arms}
    ends = [end for each in judged for end in each.difference.interval]
    names = {float(place): _SHORT[metric] for place, metric in enumerate(metrics)}
    chart = Chart(
        f"{results.study.title}: difference to MMC, mean and 95 % interval",
        Axis("measure", -0.5, len(metrics) - 0.5, at=tuple(names), text=lambda place: names[place]),
        Axis("points; above 0 is better", min(*ends, 0.0) - 0.5, max(*ends, 0.0) + 0.5),
        width=90 + 120.0 * len(metrics),
        height=360.0,
    )
    chart.line([-0.5, len(metrics) - 0.5], [0.0, 0.0], _GREY)
    for each in judged:
        slot = arms.index(each.contrast.arm)
        x = metrics.index(each.contrast.metric) + (slot - (len(arms) - 1) / 2) * 0.8 / max(len(arms), 1)
        low, high = each.difference.interval
        tip = f"{titles[each.contrast.arm]}, {METRICS[each.contrast.metric]}: {effect(each.difference)}"
        chart.line([x, x], [low, high], slot % _GREY)
        chart.points([x], [each.difference.mean], slot % _GREY, [tip])
    return with_legend(chart, [(slot % _GREY, titles[arm]) for slot, arm in enumerate(arms)])


def draw_scan(results: Results, metric: Metric) -> str:
    """Over C2/C1, a line a form; MMC is the level line. Empty where nothing was scanned."""
    families = (*GIVEN, LEARNED, RANDOM)
    lines = [(family, _scanned(results, family, metric)) for family in families]
    lines = [(family, means) for family, means in lines if means]
    if not lines:
        return ""
    level = [value for seed, value in results.of(MMC, metric).items() if seed == SCAN_SEED]
    values = [value for _, means in lines for value in means.values()] + level
    ratios = sorted({ratio for _, means in lines for ratio in means})
    chart = Chart(
        f"{METRICS[metric].capitalize()} over the ratio of the norms, one seed",
        Axis("C2/C1", min(ratios) * 0.9, max(ratios) * 1.1, scale="log", at=tuple(ratios)),
        Axis("in %", max(min(values) - 2, 0.0), min(max(values) + 2, 100.0)),
        width=520.0,
        height=320.0,
    )
    legend = []
    if level:
        chart.line([min(ratios), max(ratios)], level * 2, _GREY)
        legend.append((_GREY, "MMC-10"))
    for slot, (family, means) in enumerate(lines):
        chart.line(list(means), list(means.values()), slot)
        tips = [f"{family.title}, ratio {ratio:g}: {value:.1f} %" for ratio, value in means.items()]
        chart.points(list(means), list(means.values()), slot, tips)
        legend.append((slot, family.title))
    return with_legend(chart, legend)


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
        Axis("in %", 0.0, min(max(values) + 5, 100.0)),
        width=620.0,
        height=360.0,
    )
    for slot, curve in enumerate(curves.values()):
        chart.line([float(epoch) for epoch in range(1, len(curve) + 1)], curve, slot % COLOURS)
    return with_legend(chart, [(slot % COLOURS, titles[arm]) for slot, arm in enumerate(curves)])


def _scanned(results: Results, family: Family, metric: Metric) -> dict[float, float]:
    """One seed of every arm: those with several would not be alike with the others."""
    found = {float(value): results.of(name, metric) for value, name in zip(family.values, family.names, strict=True)}
    return {ratio: seeds[SCAN_SEED] for ratio, seeds in found.items() if SCAN_SEED in seeds}


def _curve(results: Results, arm: str) -> list[float]:
    every = [run.test_accuracy for run in results.runs if run.arm == arm]
    shortest = min((len(each) for each in every), default=0)
    return [100 * sum(each[epoch] for each in every) / len(every) for epoch in range(shortest)]
