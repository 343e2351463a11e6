"""paper/results/variants.md: seven grids of variants that the paper leaves to future work, on digits."""

import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from maxmahal.report.chart import Axis, Chart, Key, arranged
from paper import reproduce
from paper.pages.paired import ENOUGH, EQUAL, POINT
from paper.pages.study import (
    DAGGER,
    EARLY,
    Arm,
    Contrast,
    Judged,
    Metric,
    Prediction,
    Results,
    Study,
    comparison_table,
    corrected,
    is_run,
    judge,
    outcome,
    spread,
    tally,
)
from paper.pages.study_files import read_results
from paper.pages.text import NOT_RUN, counted, listed, markdown_table, render

_NAMES: dict[Metric, str] = {"clean": "clean", "worst": "worst case", "early": "first epochs"}
_COMPARED: tuple[Metric, ...] = ("worst", "clean")
_SERIES: tuple[tuple[Metric, str], ...] = (("clean", "clean images"), ("worst", "worst case"))
_ROOM = 66.0  # for an arm's name under the axis
_APART = 0.06  # between the dots of two seeds
_BAR = 0.3  # half the width of the bar at the mean


def _load() -> tuple[Study, ...]:
    tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["study"]
    return tuple(
        Study(
            table["name"],
            table["title"],
            tuple(Arm(f"variants-{name}", title, tick) for name, (title, tick) in table["arms"].items()),
            _contrasts(table["pairs"], _COMPARED),
            tuple(
                Prediction(_contrasts(each["pairs"], each["metrics"]), each["expected"])
                for each in table.get("prediction", ())
            ),
        )
        for table in tables
    )


def _contrasts(pairs: Sequence[Sequence[str]], metrics: Sequence[Metric]) -> tuple[Contrast, ...]:
    return tuple(
        Contrast(f"variants-{arm}", f"variants-{reference}", metric) for metric in metrics for arm, reference in pairs
    )


STUDIES = _load()


def variant_pages(folder: Path) -> dict[str, str]:
    """The page and its figures by their places under the folder of results; none if nothing was collected."""
    every = corrected(read_results(folder, STUDIES))
    figures = {f"figures/{name}": text for name, text in draw_figures(every).items()}
    return {"variants.md": variants_page(every), **figures} if any(is_run(each) for each in every) else figures


def variants_page(every: Sequence[Results]) -> str:
    """The whole page, of studies that were corrected together."""
    studies = {each.study.name: each for each in every}
    outcomes = Counter(outcome(each, prediction) for each in every for prediction in each.study.predictions)
    return render(
        "variants",
        about=next(each.about for each in every if is_run(each)),
        early=EARLY,
        dagger=DAGGER,
        least=POINT,
        equal=EQUAL,
        enough=counted("seed", ENOUGH),
        tally=tally(every),
        study_count=len(every),
        studies_with=lambda verdict: listed(_studies_with(every, verdict)) or "none",
        outcomes=listed([f"{count} {found}" for found, count in outcomes.items()]),
        under_attack=lambda name: _under_attack(studies[name]),
        outcome=lambda name, place=0: outcome(studies[name], studies[name].study.predictions[place]),
        section=lambda name: _section(studies[name]),
        figure_name=figure_name,
        studies=studies,
        is_run=is_run,
        widest=_widest_table(every),
    )


def _section(results: Results) -> str:
    """The command, what was measured, and the comparisons."""
    command = reproduce(f"variants-{results.study.name}")
    if not is_run(results):
        return f"{command}: {NOT_RUN}."
    by_metric = sorted(results.study.comparisons, key=lambda each: list(_NAMES).index(each.metric))
    comparisons = comparison_table(results, by_metric, _NAMES)
    return "\n\n".join([command, _measured(results), comparisons])


def _studies_with(every: Sequence[Results], verdict: str) -> list[str]:
    """Titles of the studies with such an arm under attack; without a verdict, of those without a difference."""
    found = [each for each in every if is_run(each)]
    chosen = (
        [each for each in found if _arms_with(each, verdict)]
        if verdict
        else [each for each in found if _under_attack(each) == "no difference seen"]
    )
    return [f"*{each.study.title.partition(' (')[0].lower()}*" for each in chosen]


def _measured(results: Results) -> str:
    header = ["arm", "seeds", *_NAMES.values(), "strongest single attack leaves"]
    return markdown_table(header, [_row(results, arm) for arm in results.study.arms])


def _row(results: Results, arm: Arm) -> list[str]:
    runs = [run for run in results.runs if run.arm == arm.name]
    cells = [spread(results.of(arm.name, metric).values()) for metric in _NAMES]
    left = {name: sum(run.stages[name].value for run in runs) / len(runs) for run in runs[:1] for name in run.stages}
    best = min(left, key=lambda name: left[name], default="")
    return [arm.title, str(len(runs)), *cells, f"{100 * left[best]:.1f} ({best})" if best else NOT_RUN]


def _arms_with(results: Results, verdict: str) -> list[str]:
    """Titles of the arms with a verdict on worst-case accuracy."""
    judged = [judge(results, each) for each in results.study.contrasts if each.metric == "worst"]
    return list(dict.fromkeys(results.study.arm_title(one.contrast.arm) for one in judged if one.verdict == verdict))


def _under_attack(results: Results) -> str:
    """Which arms help, hurt or may do so in worst-case accuracy."""
    found = {verdict: _arms_with(results, verdict) for verdict in ("helps", "hurts", "true, small", "may be chance")}
    # A verdict against one reference stays if another comparison of the arm may be chance.
    settled = {*found["helps"], *found["hurts"], *found["true, small"]}
    found["may be chance"] = [title for title in found["may be chance"] if title not in settled]
    texts = [f"{verdict}: {listed(titles)}" for verdict, titles in found.items() if titles]
    return "; ".join(texts) or ("no difference seen" if is_run(results) else NOT_RUN)


def _widest_table(every: Sequence[Results]) -> str:
    """For each study the widest interval without a difference, and the seeds that would narrow it to a point."""
    rows = []
    for results in every:
        judged = [judge(results, contrast) for contrast in results.study.contrasts]
        unseen: list[Judged] = [one for one in judged if one.verdict == "no difference seen"]
        if unseen:
            one = max(unseen, key=lambda each: each.difference.half_width)
            pair = " vs ".join(results.study.arm_title(arm) for arm in (one.contrast.arm, one.contrast.reference))
            width, seeds = one.difference.half_width, one.difference.seeds_for(POINT)
            rows.append([results.study.title, f"{pair}, {_NAMES[one.contrast.metric]}", f"±{width:.1f}", f"{seeds}"])
    return markdown_table(["study", "comparison", "interval, points", f"seeds for ±{POINT:g}"], rows, words=2)


def figure_name(results: Results) -> str:
    """Its file under results/figures."""
    return f"variants-{results.study.name}.svg"


def draw_figures(every: Sequence[Results]) -> dict[str, str]:
    """Of every study that was run, by file name."""
    return {figure_name(each): draw(each) for each in every if is_run(each)}


def draw(results: Results) -> str:
    """Dots for seeds, bars for means; arms that were not run are left out."""
    arms = [arm for arm in results.study.arms if results.of(arm.name, "clean")]
    ticks = dict(enumerate(arm.tick for arm in arms))
    values = [value for arm in arms for metric, _ in _SERIES for value in results.of(arm.name, metric).values()]
    across = Axis(
        "variant",
        -0.5,
        len(arms) - 0.5,
        at=tuple(float(place) for place in ticks),
        text=lambda place: ticks[int(place)],
    )
    upward = Axis("accuracy in %", max(min(values) - 4, 0.0), 100.0)
    title = f"{results.study.title}: accuracy, one dot per seed"
    chart = Chart(title, across, upward, width=max(420.0, 70 + _ROOM * len(arms)), height=320.0)
    for slot, (metric, _) in enumerate(_SERIES):
        _add(chart, results, arms, metric, slot)
    legend = [Key(f"s{slot}", f"{words}, with the mean") for slot, (_, words) in enumerate(_SERIES)]
    return arranged(title, [chart], legend=legend).file()


def _add(chart: Chart, results: Results, arms: Sequence[Arm], metric: Metric, slot: int) -> None:
    for place, arm in enumerate(arms):
        seeds = results.of(arm.name, metric)
        mean = sum(seeds.values()) / len(seeds)
        chart.line([place - _BAR, place + _BAR], [mean, mean], slot)
        middle = (len(seeds) - 1) / 2
        for order, (seed, value) in enumerate(sorted(seeds.items())):
            tip = f"{arm.title}, seed {seed}: {value:.1f} %"
            chart.points([place + _APART * (order - middle)], [value], slot, [tip])
