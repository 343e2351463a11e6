"""One figure per study: clean and worst-case accuracy of every seed, arm by arm, with a bar at the mean."""

from collections.abc import Sequence

from maxmahal.report.chart import Axis, Chart, Key, arranged
from paper.pages.study import Arm, Metric, Results, is_run

_SERIES: tuple[tuple[Metric, str], ...] = (("clean", "clean images"), ("worst", "worst case"))
_ROOM = 66.0  # for an arm's name under the axis
_APART = 0.06  # between the dots of two seeds
_BAR = 0.3  # half the width of the bar at the mean


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
