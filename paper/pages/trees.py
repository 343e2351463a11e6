"""paper/results/trees.md: when hierarchical centers help, on CIFAR-100."""

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maxmahal.data import CIFAR100_SUPERCLASSES
from maxmahal.records.statistics import Rate
from maxmahal.report.chart import SERIES, Axis, Chart, Key, arranged
from paper import reproduce
from paper.pages import trees_scan as scan
from paper.pages.models import network_title
from paper.pages.paired import ENOUGH, EQUAL, POINT, Difference
from paper.pages.study import (
    DAGGER,
    EARLY,
    METRICS,
    Judged,
    Metric,
    Outcome,
    Results,
    Run,
    comparison_table,
    corrected,
    effect,
    is_run,
    judge,
    judged_of,
    outcome,
    tally,
)
from paper.pages.study_files import read_results
from paper.pages.text import NOT_RUN, counted, difference, markdown_table, rate_text, render
from paper.pages.trees_study import (
    AT_MMC,
    AT_ORTHOGONAL,
    BETWEEN,
    GIVEN,
    GIVEN_NAMES,
    LEARNED,
    MMC,
    NAMES,
    ORTHOGONAL,
    PLAIN,
    PLAIN_METRICS,
    RANDOM,
    RATIOS,
    SMALL,
    STRICT_METRICS,
    TREE_STUDIES,
    TREES,
    Family,
    ratio_of,
    seeded,
    with_contrasts,
)

SAME_RATIO = ((ORTHOGONAL, RANDOM, "given vs random tree"), (LEARNED, ORTHOGONAL, "learned vs given tree"))
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


def trees_pages(results: Path) -> dict[str, str]:
    """The page and its figures by their places under the folder of results; none if nothing was collected."""
    every = corrected([with_contrasts(each) for each in read_results(results, TREE_STUDIES)])
    if not any(each.runs for each in every):
        return {}
    summaries = scan.read_tree_summaries(results)
    drawn = draw_figures([every[0], every[2]], summaries)
    page = trees_page(every, summaries, scan.read_long(results), list(drawn))
    return {"trees.md": page, **{f"figures/{name}": text for name, text in drawn.items()}}


def trees_page(
    every: Sequence[Results], summaries: scan.TreeSummaries, long: scan.Long, figures: Sequence[str] = ()
) -> str:
    """The whole page, of studies that were corrected together."""
    plain, near, strict = every
    groups, size = _tree()
    contrasts, given = plain.study.contrasts, seeded(plain, GIVEN_NAMES)
    return render(
        "trees",
        lead=lead(plain, near) if is_run(plain) else None,
        long=long,
        adversarial=scan.adversarial_gaps(summaries),
        adversarial_scores={
            arm.title: 100 * score
            for arm in strict.study.arms
            if arm.name in (AT_MMC, *AT_ORTHOGONAL.names) and (score := summaries.validation(arm.name)) is not None
        },
        small={metric: scan.small_ratios(plain, metric, summaries) for metric in ("clean", "superclass", "worst")},
        small_outcome=small_outcome(scan.small_ratios(plain, "clean", summaries)),
        small_limit=SMALL,
        shown=shown,
        figures=figures,
        reproduce=reproduce,
        effects=comparison_table(plain, [each for each in contrasts if each.reference == MMC], NAMES, MMC),
        others=comparison_table(plain, [each for each in contrasts if each.reference != MMC], NAMES),
        careful=[(each.study, comparison_table(each, each.study.contrasts, NAMES)) for each in (near, strict)],
        equal_ratios={
            title: scan.same_ratio(plain, ours, theirs, "superclass", summaries) for ours, theirs, title in SAME_RATIO
        },
        edges=[plain.study.arm_title(arm) for family in PLAIN if (arm := scan.at_the_edge(plain, family))],
        scan=scan_table(plain, summaries),
        fit=scan.loss_and_robustness(plain, summaries),
        attacks=summaries.attacks,
        later={arm: later for arm in (MMC, *given) if (later := _later(plain, arm, summaries)) is not None},
        mmc=MMC,
        recipes=(next(({**plain.shared, **run.settings} for run in plain.runs), {}), summaries.settings(AT_MMC)),
        network_title=network_title,
        about=plain.about,
        strict=strict.study,
        groups=groups,
        group_size=size,
        even_ratio=even_ratio(),
        last_ratio=RATIOS[-1],
        early=EARLY,
        least=POINT,
        equal=EQUAL,
        enough=counted("seed", ENOUGH),
        dagger=DAGGER,
        tally=tally(every),
    )


def shown(found: Judged | scan.Apart | Difference | None) -> str:
    """ "+1.2 [−0.3, +2.7]" of any difference in points."""
    if found is None:
        return "not measured"
    if isinstance(found, scan.Apart):
        return difference(found.size, (found.low, found.high))
    plain = found.difference if isinstance(found, Judged) else found
    return difference(plain.mean, plain.interval) + (found.dagger if isinstance(found, Judged) else "")


def lead(plain: Results, near: Results) -> dict[str, Any]:
    """The message: hierarchical centers in orthogonal subspaces if these have seeds, else the first form that has."""
    given = seeded(plain, GIVEN_NAMES)
    main = next(iter([*seeded(plain, ORTHOGONAL.names), *given]), "")
    judged = {each.contrast.metric: each for each in judged_of(plain, [main], (MMC,))}
    worst = [*judged_of(plain, given, (MMC,)), *judged_of(near, given, (MMC,))]
    random = judged_of(plain, RANDOM.names, (MMC,))
    ahead = [each for each in judged_of(plain, [main], RANDOM.names) if each.contrast.metric == "superclass"]
    return {
        "form": plain.study.arm_title(main) if main else "",
        "epochs": plain.shared.get("train.epochs"),
        "seeds": counted("seed", *(each.difference.n for each in judged.values())) if judged else "",
        **{metric: judged.get(metric) for metric in ("clean", "superclass", "near", "worst")},
        "milder": [each for each in judged.values() if each.contrast.metric == "superclass" and _helps(each)],
        "robust": [each for each in worst if each.contrast.metric == "worst" and _helps(each)],
        "random": random,
        "random_differs": [each for each in random if each.difference.verdict() != "no difference seen"],
        "random_width": max((each.difference.half_width for each in random), default=math.nan),
        "over_random": ahead[0] if ahead else None,
        "tree": bool(ahead) and _helps(ahead[0]),
        "prediction": outcome(plain, plain.study.predictions[0]) if plain.study.predictions else NOT_RUN,
        "ratios": ", ".join(sorted({ratio_of(arm) for arm in given})),
    }


def small_outcome(gaps: Sequence[scan.Apart]) -> Outcome:
    """Whether clean accuracy is higher at the ratios that the paper means, over images of one training each."""
    helps = [gap.low > 0 and gap.size >= POINT for gap in gaps]
    hurts = [gap.high < 0 and gap.size <= -POINT for gap in gaps]
    if any(helps):
        return "came true" if all(helps) else "came true in part"
    return "did not come true" if any(hurts) else "undecided"


def _helps(judged: Judged) -> bool:
    return judged.difference.verdict() == "helps"


def scan_table(results: Results, summaries: scan.TreeSummaries) -> str:
    """Every run of the scan: accuracies with intervals over images, training loss, and where its centers are."""
    rows = [[results.study.arm_title(arm), *_scanned(run, summaries)] for arm, run in scan.scan_runs(results).items()]
    header = ["arm (seed 0)", "validation", *(NAMES[metric] for metric in BETWEEN), NAMES["worst-near"]]
    return markdown_table([*header, "training loss", "lengths", "nearest two", "nearest across"], rows)


def _scanned(run: Run, summaries: scan.TreeSummaries) -> list[str]:
    rates = [run.rate(metric) for metric in (*BETWEEN, "worst-near")]
    low, high, *distances = (f"{run.centers[name]:.1f}" for name in ("shortest", "longest", "nearest", "across"))
    numbers = [None if run.validation is None else 100 * run.validation, summaries.training_loss(run)]
    validation, loss = ("–" if each is None else f"{each:.1f}" for each in numbers)
    return [validation, *map(_rate, rates), loss, low if low == high else f"{low} to {high}", *distances]


def _rate(rate: Rate | None) -> str:
    return "–" if rate is None else rate_text(rate).replace(" %", "")


def _later(results: Results, arm: str, summaries: scan.TreeSummaries) -> float | None:
    rates = [rate for run in results.runs if run.arm == arm and (rate := summaries.broken_later(run)) is not None]
    return sum(rate.value for rate in rates) / len(rates) if rates else None


def _tree() -> tuple[int, int]:
    """How many superclasses, and how many classes each has."""
    sizes = Counter(CIFAR100_SUPERCLASSES)
    return len(sizes), max(sizes.values())


def even_ratio() -> float:
    """Where classes of one superclass in orthogonal subspaces are as far apart as others.

    2·C2²·m/(m − 1) = 2·C1²·g/(g − 1) + 2·C2² for g superclasses of m classes.
    """
    groups, size = _tree()
    return math.sqrt(groups * (size - 1) / (groups - 1))


def draw_figures(every: Sequence[Results], summaries: scan.TreeSummaries) -> dict[str, str]:
    """By file name; only figures that have data."""
    drawn: dict[str, str] = {}
    for results in every:
        judged = [judge(results, each) for each in results.study.contrasts if each.reference in (MMC, AT_MMC)]
        judged = [each for each in judged if each.verdict != "not run"]
        if judged:
            drawn[f"{results.study.name}-effects.svg"] = draw_effects(results, judged)
        if results.study.name == TREES.name:
            scans = {metric: draw_scan(results, metric, summaries) for metric in _SCANNED}
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
    counts = sorted({each.difference.n for each in judged})
    seeds = " to ".join(dict.fromkeys((str(counts[0]), str(counts[-1]))))
    chart = Chart(
        f"Difference to MMC ({results.study.epsilon}): mean and 95 % interval over {seeds} seeds on the same images",
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


def draw_scan(results: Results, metric: Metric, summaries: scan.TreeSummaries) -> str:
    """How far each form is from MMC, ratio by ratio and form beside form; empty if there is nothing to compare."""
    families = (*GIVEN, LEARNED, RANDOM)
    found = [(slot, family, _beyond(results, family, metric, summaries)) for slot, family in enumerate(families)]
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
            text = f"{gap.size:+.1f} points [{gap.low:+.1f}, {gap.high:+.1f}]".replace("-", "−")
            tip = f"{family.title}, ratio {value}: {text}{', paired' if gap.paired else ''}"
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


def _how(gaps: Sequence[scan.Apart], metric: Metric) -> str:
    """Whether the intervals are paired: all, none or some."""
    loose = sum(not gap.paired for gap in gaps)
    if not loose:
        return _PAIRED
    if loose == len(gaps):
        return _ERRORS if metric == "near" else _UNKNOWN
    return f"{_PAIRED}, but {loose} of {len(gaps)} {_UNKNOWN}"


def _beyond(results: Results, family: Family, metric: Metric, summaries: scan.TreeSummaries) -> dict[str, scan.Apart]:
    """By ratio the difference to MMC and its interval, of the ratios that every form has."""
    found = {value: scan.apart(results, f"{family.name}-{value}", MMC, metric, summaries) for value in LEARNED.values}
    return {value: gap for value, gap in found.items() if gap is not None}


def _curve(results: Results, arm: str) -> list[float]:
    every = [run.test_accuracy for run in results.runs if run.arm == arm]
    shortest = min((len(each) for each in every), default=0)
    return [100 * sum(each[epoch] for each in every) / len(every) for epoch in range(shortest)]
