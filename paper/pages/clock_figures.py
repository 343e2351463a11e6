"""Figures of the page about the clock: robust accuracy against seconds, and against clean accuracy."""

from collections.abc import Mapping, Sequence
from typing import Any

from maxmahal.report.chart import Axis, Chart, Key, Line, Point, Text, arranged, cross
from paper.pages.clock_trials import AUTOATTACK, KINDS, STRICT, Column, Trial, columns_of
from paper.pages.paired import Difference

Seen = list[tuple[int, Column, Trial]]
"""The place of a kind of training, its budget, and its seeds."""
_Box = tuple[float, float, float, float]
_ASIDE = (-3, 3, 3, -3)  # from a point to the bar of its kind, as two kinds take equally long
_LETTER, _HIGH = 6.4, 10.0  # about the size of a letter
_BESIDE = tuple((side * x, y) for x, y in ((8, 4), (6, -6), (6, 14), (1, -12), (1, 21), (1, 32)) for side in (1, -1))
"""Where a label may begin or end beside its point, the best place first."""


def clock_figures(trials: Mapping[str, Trial], anchors: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Those with data, by file name."""
    columns = [column for column in columns_of(trials) if not column.end]
    grid = [(slot, column, column.model(kind)) for slot, kind in enumerate(KINDS) for column in columns]
    seen = [
        (slot, column, trials[name]) for slot, column, name in grid if name in trials and trials[name].worst[STRICT]
    ]
    timed = [each for each in seen if each[2].seconds]
    legend = [Key(f"s{slot}", kind) for slot, kind in enumerate(KINDS.values()) if slot in {each[0] for each in seen}]
    drawn = {"clock-time.svg": draw_time(timed, legend)} if timed else {}
    return {**drawn, "clock-front.svg": draw_front(seen, legend, anchors)} if seen else drawn


def draw_time(seen: Seen, legend: Sequence[Key]) -> str:
    """Each seed as a point, lines through the means, and intervals of these if there are several seeds."""
    title = "Robust accuracy against training time, ResNet-18, CIFAR-10, Linf 8/255"
    spreads = [(*each, Difference(tuple(found.value for found in each[2].worst[STRICT].values()))) for each in seen]
    ends = [end for *_, spread in spreads for end in (*spread.values, *(spread.interval if spread.n > 1 else ()))]
    across = Axis.around("seconds of training on one H200", [trial.time for _, _, trial in seen], "log")
    chart = Chart(title, across, Axis.around("worst case of strict in %", ends), width=640.0, height=380.0)
    for slot in range(len(KINDS)):
        means = [(trial.time, spread.mean) for place, _, trial, spread in spreads if place == slot]
        chart.line([x for x, _ in means], [y for _, y in means], slot)
    for slot, _, trial, spread in spreads:
        if spread.n > 1:
            bar = [chart.place(trial.time, end) for end in spread.interval]
            chart.parts.append(Line([(x + _ASIDE[slot], y) for x, y in bar], f"s{slot}", 1.5, opacity=0.5))
        tips = [f"{name}: {found.value:.1f} %" for name, found in trial.worst[STRICT].items()]
        chart.points([trial.time] * spread.n, spread.values, slot, tips)
    note = "Points: training seeds. Lines: means. Bars: 95 % intervals over seeds. All are attacked on the same images."
    return arranged(title, [chart], legend=legend, note=note).file()


def draw_front(seen: Seen, legend: Sequence[Key], anchors: Sequence[Mapping[str, Any]]) -> str:
    """Means joined at equal budgets, under AutoAttack if it saw every kind there and else under strict."""
    title = "Clean against robust accuracy, ResNet-18, CIFAR-10, Linf 8/255"
    fronts: dict[str, list[tuple[float, float, int]]] = {}
    for budget in sorted({column for _, column, _ in seen}):
        kinds = [(slot, trial) for slot, column, trial in seen if column == budget]
        suite = AUTOATTACK if all(trial.worst[AUTOATTACK] for _, trial in kinds) else STRICT
        words = f"{budget.epochs} epochs{' (AutoAttack)' if suite == AUTOATTACK else ''}"
        fronts[words] = sorted((trial.mean_clean(suite), trial.mean(suite), slot) for slot, trial in kinds)
    dots = [(x, y) for points in fronts.values() for x, y, _ in points]
    dots += [(row["clean"], row["autoattack"]) for row in anchors]
    across = Axis.around("clean accuracy in %", [x for x, _ in dots])
    chart = Chart(title, across, Axis.around("robust accuracy in %", [y for _, y in dots]), width=760.0, height=480.0)
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in (chart.place(*dot) for dot in dots)]
    for points in fronts.values():
        chart.parts.append(Line([chart.place(x, y) for x, y, _ in points], "soft", 1.2, opacity=0.6))
    for words, points in fronts.items():
        for x, y, slot in points:
            chart.points([x], [y], slot, [f"{words}, {[*KINDS.values()][slot]}: {x:.1f} / {y:.1f} %"])
        chart.parts.append(_label(chart, words, chart.place(*points[-1][:2]), taken, bold=True))
    for row in anchors:
        here = chart.place(row["clean"], row["autoattack"])
        chart.parts += [*cross(*here, size=3.5), _label(chart, row["name"], here, taken)]
    note = "Means over seeds, joined at equal epochs: the worst case of strict, or of AutoAttack if a line says so. "
    note += "Crosses: public results under AutoAttack. Up and to the right is better."
    return arranged(title, [chart], legend=legend, note=note).file()


def _label(chart: Chart, text: str, here: Point, taken: list[_Box], *, bold: bool = False) -> Text:
    """Beside a point at the first place that is free, else at the last; the place is taken afterwards."""
    wide = (_LETTER + bold * 0.6) * len(text)
    for dx, dy in _BESIDE:
        x, y = here[0] + dx, here[1] + dy
        left = x if dx > 0 else x - wide
        box = (left, y - _HIGH, left + wide, y + 2)
        inside = chart.place(chart.x.low, chart.y.low)[0] < left and box[2] < chart.width
        if inside and not any(box[0] < c and a < box[2] and box[1] < d and b < box[3] for a, b, c, d in taken):
            break
    taken.append(box)
    return Text(x, y, text, anchor="start" if dx > 0 else "end", bold=bold, halo=True)
