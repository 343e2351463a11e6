"""Figures of the page about the clock: robust accuracy against seconds, and against clean accuracy."""

from collections.abc import Mapping, Sequence
from typing import Any

from maxmahal.report.chart import Axis, Chart, Key, Line, Point, Text, arranged, cross
from paper.pages.clock_trials import AUTOATTACK, KINDS, STRICT, Column, Trial, columns_of

Seen = list[tuple[int, Column, Trial]]
"""The place of a kind of training, its budget, and its seeds."""
_Box = tuple[float, float, float, float]
_ROOM = 2.6  # points, for labels to the right of the last point
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
    """Each seed as a point, and lines through the means."""
    title = "Robust accuracy against training time, ResNet-18, CIFAR-10, Linf 8/255"
    values = [found.value for _, _, trial in seen for found in trial.worst[STRICT].values()]
    across = Axis.around("seconds of training on one H200", [trial.time for _, _, trial in seen], "log")
    chart = Chart(title, across, Axis.around("worst case of strict in %", values), width=640.0, height=380.0)
    for slot in range(len(KINDS)):
        means = [(trial.time, trial.mean(STRICT)) for place, _, trial in seen if place == slot]
        chart.line([x for x, _ in means], [y for _, y in means], slot)
    for slot, _, trial in seen:
        found = trial.worst[STRICT]
        tips = [f"{name}: {each.value:.1f} %" for name, each in found.items()]
        chart.points([trial.time] * len(found), [each.value for each in found.values()], slot, tips)
    note = "Points: training seeds. Lines: their means. All are attacked on the same images."
    return arranged(title, [chart], legend=legend, note=note).file()


def draw_front(seen: Seen, legend: Sequence[Key], anchors: Sequence[Mapping[str, Any]]) -> str:
    """Means of each kind over budgets, and at each budget a line through those that no other kind exceeds in both.

    A budget is under AutoAttack if it saw every kind there, else under strict.
    """
    title = "Clean against robust accuracy, ResNet-18, CIFAR-10, Linf 8/255"
    budgets: dict[str, list[tuple[float, float, int]]] = {}
    for budget in sorted({column for _, column, _ in seen}):
        kinds = [(slot, trial) for slot, column, trial in seen if column == budget]
        suite = AUTOATTACK if all(trial.worst[AUTOATTACK] for _, trial in kinds) else STRICT
        words = f"{budget.epochs} epochs{' (AA)' if suite == AUTOATTACK else ''}"
        budgets[words] = sorted((trial.mean_clean(suite), trial.mean(suite), slot) for slot, trial in kinds)
    dots = [(x, y) for points in budgets.values() for x, y, _ in points]
    dots += [(row["clean"], row["autoattack"]) for row in anchors]
    across = Axis.around("clean accuracy in %", [*(x for x, _ in dots), max(x for x, _ in dots) + _ROOM])
    chart = Chart(title, across, Axis.around("robust accuracy in %", [y for _, y in dots]), width=760.0, height=480.0)
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in (chart.place(*dot) for dot in dots)]
    for slot in range(len(KINDS)):
        path = [chart.place(x, y) for points in budgets.values() for x, y, place in points if place == slot]
        chart.parts.append(Line(path, f"s{slot}", 1.5, opacity=0.5))
    for points in budgets.values():
        chart.parts.append(Line([chart.place(x, y) for x, y, _ in front(points)], "ink", 1.2, dash=True))
    for words, points in budgets.items():
        for x, y, slot in points:
            chart.points([x], [y], slot, [f"{words}, {[*KINDS.values()][slot]}: {x:.1f} / {y:.1f} %"])
        chart.parts.append(_label(chart, words, chart.place(*points[-1][:2]), taken, bold=True))
    for row in anchors:
        here = chart.place(row["clean"], row["autoattack"])
        chart.parts += [*cross(*here, size=3.5), _label(chart, row["name"], here, taken)]
    note = "Means over seeds; dashed at equal epochs, through the kinds that no other one exceeds in both. The worst "
    note += "case of strict, or of AutoAttack (AA) where a label says so. Crosses: public results under AutoAttack."
    return arranged(title, [chart], legend=legend, note=note).file()


def front(points: Sequence[tuple[float, float, int]]) -> list[tuple[float, float, int]]:
    """Of points by increasing x, those with no other one above and to the right."""
    return [each for place, each in enumerate(points) if all(each[1] > other[1] for other in points[place + 1 :])]


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
