"""The published figures, from summaries: training curves, transfer matrices, and the differences at two budgets."""

from collections.abc import Sequence
from itertools import cycle
from typing import NamedTuple

from maxmahal.report.chart import SERIES, Axis, Chart, Key, arranged, heat_map
from maxmahal.report.wording import listed
from paper.pages.compare import SUITE, crafting, is_transfer, of_images
from paper.pages.models import ADVERSARIAL_CIFAR100, DATA, LONG, SHORT, TABLE_1, TABLE_4, data_of
from paper.pages.paired import ENOUGH, Difference
from paper.pages.results import Published, has_own_threat
from paper.pages.tables import planned_epochs
from paper.pages.training import AROUND, batch_of, is_finished, medians, state_of, tested, why_not_timed
from paper.summaries import RunSummary, Summary, pair_up

_CURVES = {
    "training.svg": tuple(name for name in TABLE_1 if "at-un" not in name),  # as in the paper, where AT is targeted
    "training-cifar100.svg": TABLE_4,
    "training-cifar100-at.svg": ADVERSARIAL_CIFAR100,
}

_TICKS = (1, 2, 3, 5, 7, 10, 15, 20, 25, 30, 35, 40, 50, 70, 100)
"""Test errors in percent beside a logarithmic axis."""
_FEWEST = 10  # points of a curve in an enlarged chart

_SLOTS = {"sce": 0, "mmc": 1, "mmlda": 2, "lgm": 3, "center": 4, "mmc-rand": 7}
"""Colours of the losses without adversarial training."""
_TITLE = "AT (MMC-10) minus AT (SCE): robust accuracy under AutoAttack"
_BY_IMAGES = "95 % interval for the sampling of images, paired"
_BY_SEEDS = "95 % t interval over the training seeds"


def figures(results: Published) -> dict[str, str]:
    """Every figure that the summaries have data for, by its file's name."""
    curves = {file: training(results, names) for file, names in _CURVES.items()}
    found = {**curves, "budgets.svg": budgets(results), **transfers(results)}
    return {name: text for name, text in found.items() if text}


def training(results: Published, names: Sequence[str]) -> str:
    """Test error of some models, of finished runs only; empty without one.

    Against training time, as in the paper's Fig. 3a, if the times can be compared; else against epochs.
    """
    known = {results.title(name): run for name in names if (run := results.run(name)) is not None}
    runs = {title: run for title, run in known.items() if is_finished(run) and _curve(run, timed=False)}
    slots = _slots(list(runs.values()))
    if not runs:
        return ""
    why = why_not_timed(list(runs.values()))
    curves = [_curve(run, timed=not why) for run in runs.values()]
    xs, errors = ([point[side] for curve in curves for point in curve] for side in (0, 1))
    across = Axis("epoch" if why else "training time in minutes", min(xs), max(xs), "log")
    low, high = max(min(errors) / 1.1, 0.001), min(max(errors) * 1.1, 1.0)
    at = tuple(tick / 100 for tick in _TICKS if low <= tick / 100 <= high)
    upward = Axis("test error in %", low, high, "log", text=_percent, at=at)
    what = f"Test error by {'epoch' if why else 'training time'}"
    methods = {run.settings.get("method", {}).get("name") for run in runs.values()}
    what += " of adversarial training" if methods == {"adversarial"} else ""
    data = data_of(names[0])
    figure = " (Figure 3a)" if data == "cifar10" else ""
    chart = Chart(f"{what} on {DATA[data]}{figure}", across, upward, width=402.0, height=340.0)
    for slot, curve in zip(slots, curves, strict=True):
        chart.line([x for x, _ in curve], [y for _, y in curve], slot)
    legend = [Key(f"s{slot}", label) for slot, label in zip(slots, _labels(runs), strict=True)]
    note = _note(why, {title: run for title, run in known.items() if not is_finished(run)})
    return arranged(chart.title, [chart, *_last_half(curves, slots, across.label)], 1, legend, note).file()


def _last_half(curves: Sequence[Sequence[tuple[float, float]]], slots: Sequence[int], label: str) -> list[Chart]:
    """The second half on axes of its own, where the ends of curves can be distinguished.

    Empty if a curve has too few points there.
    """
    last = max(x for curve in curves for x, _ in curve)
    ends = [[(x, error) for x, error in curve if 2 * x > last] for curve in curves]
    if min(map(len, ends)) < _FEWEST:
        return []
    errors = [error for end in ends for _, error in end]
    room = (max(errors) - min(errors) or 0.01) / 20
    across = Axis(label, min(x for end in ends for x, _ in end), last)
    upward = Axis("test error in %", max(min(errors) - room, 0.0), max(errors) + room, text=_percent)
    chart = Chart("The last half, enlarged", across, upward, width=402.0, height=340.0)
    for slot, end in zip(slots, ends, strict=True):
        chart.line([x for x, _ in end], [error for _, error in end], slot)
    return [chart]


def _percent(share: float) -> str:
    return f"{100 * share:.3g}"


def transfers(results: Published) -> dict[str, str]:
    """A transfer matrix for each suite and attack (paper Fig. 4)."""
    found: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for each in filter(has_own_threat, results.evaluations):
        for stage in each.stages:
            if is_transfer(stage) and stage.accuracy is not None:
                shown = found.setdefault((each.suite, crafting(stage)), {}).setdefault(each.name, {})
                shown[stage.source] = stage.accuracy.value
    return {
        f"transfer-{suite}-{way.lower().replace(' ', '-')}.svg": _matrix(results, f"{suite}, {way}", targets)
        for (suite, way), targets in found.items()
    }


def _matrix(results: Published, what: str, targets: dict[str, dict[str, float]]) -> str:
    sources = sorted({source for shown in targets.values() for source in shown}, key=_place)
    names = sorted(targets, key=_place)
    shares = [[targets[name].get(source) for name in names] for source in sources]
    rows, columns = ([results.title(name) for name in each] for each in (sources, names))
    matrix = heat_map(f"{what}: crafted on (rows), target (columns), accuracy in %", rows, columns, shares)
    return arranged(matrix.title, [matrix]).file()


def _place(model: str) -> tuple[int, str]:
    """In the order of the paper's first table."""
    return (TABLE_1.index(model) if model in TABLE_1 else len(TABLE_1), model)


def _curve(run: RunSummary, *, timed: bool) -> list[tuple[float, float]]:
    """Minutes or epochs, and test errors; none is zero, as axes are logarithmic."""
    entries = tested(run)
    errors = [max(1 - float(entry["test_accuracy"]), 0.001) for entry in entries]
    return [
        (float(entry["train_seconds"]) / 60 if timed else float(entry["epoch"]), error)
        for entry, error in zip(entries, medians(errors), strict=True)
    ]


def _slots(runs: Sequence[RunSummary]) -> list[int]:
    """One colour per run: that of its loss, or the next free one."""
    own = [_SLOTS.get(run.name.partition("-")[2]) for run in runs]
    free = cycle(slot for slot in range(SERIES) if slot not in own)
    return [next(free) if slot is None else slot for slot in own]


def _labels(runs: dict[str, RunSummary]) -> list[str]:
    """Titles, with the batch sizes if these differ."""
    batches = {batch_of(run) for run in runs.values()}
    return [f"{title}, batch {batch_of(run)}" if len(batches) > 1 else title for title, run in runs.items()]


def _note(why: str, left_out: dict[str, RunSummary]) -> str:
    said = [f"Each point is the median of {2 * AROUND + 1} epochs, of fewer at the ends."]
    said += [f"By epoch and not by time: {why}."] if why else []
    if left_out:
        names = listed([f"{title} ({state_of(run)})" for title, run in left_out.items()])
        said.append(f"Not drawn, as not finished: {names}.")
    return " ".join(said)


class _Row(NamedTuple):
    """One difference, in points."""

    label: str
    value: float
    interval: tuple[float, float] | None


class _BudgetPair(NamedTuple):
    """Two models of one budget and one training seed on the same images."""

    mmc: Summary
    sce: Summary

    @property
    def interval(self) -> tuple[float, float]:
        return of_images(pair_up(self.mmc, self.sce)).interval()

    @property
    def points(self) -> float:
        return 100 * (self.mmc.robust.value - self.sce.robust.value)

    @property
    def seed(self) -> int:
        return int(self.mmc.model.get("settings", {}).get("train", {}).get("seed", 0))


def budgets(results: Published) -> str:
    """AT (MMC-10) minus AT (SCE) at both budgets, one dot per pair of seeds; empty without a pair."""
    found = {word: _pairs(results, bases) for word, bases in (("Long", LONG), ("Short", SHORT))}
    found = {word: pairs for word, pairs in found.items() if pairs}
    if not found:
        return ""
    said = {word: _BY_SEEDS if len(pairs) >= ENOUGH else _BY_IMAGES for word, pairs in found.items()}
    note = ". ".join(f"{word}: {which}" for word, which in said.items())
    balls = listed(sorted({f"{pair.mmc.norm} {pair.mmc.epsilon}" for pairs in found.values() for pair in pairs}))
    rows = {_heading(word, pairs): _rows(pairs) for word, pairs in found.items()}
    every = [row for each in rows.values() for row in each]
    ends = [0.0, *(row.value for row in every), *(end for row in every for end in row.interval or ())]
    across = Axis.around("MMC-10 minus SCE in points", ends)
    charts = [_budget_chart(heading, across, each) for heading, each in rows.items()]
    return arranged(_TITLE, charts, note=f"{note}. At {balls}, last checkpoints.").file()


def _budget_chart(heading: str, across: Axis, rows: Sequence[_Row]) -> Chart:
    """The rows one below the other, and a dashed line where both losses are equal."""
    names = {-float(place): row.label for place, row in enumerate(rows)}
    down = Axis("", 0.5 - len(rows), 0.5, at=tuple(names), text=lambda place: names[place])
    chart = Chart(heading, across, down, width=402.0, height=70.0 + 24 * len(rows))
    chart.upright(0.0, "")
    for place, row in zip(names, rows, strict=True):
        slot = int(row.label == "mean")
        if row.interval is not None:
            chart.line(row.interval, [place, place], slot)
        chart.points([row.value], [place], slot)
    return chart


def _pairs(results: Published, bases: tuple[str, str]) -> list[_BudgetPair]:
    """Models that differ only in their loss, by training seed; unfinished ones are left out."""
    sce, mmc = bases
    found = []
    for name in results.seeds(mmc):
        names = (name, f"{sce}{name.removeprefix(mmc)}")
        runs = [run for each in names if (run := results.run(each)) is not None]
        pair = results.pair(*names, SUITE)
        if pair is not None and all(map(is_finished, runs)):
            found.append(_BudgetPair(*pair))
    return sorted(found, key=lambda pair: pair.seed)


def _heading(word: str, pairs: list[_BudgetPair]) -> str:
    epochs = listed([str(each) for each in dict.fromkeys(planned_epochs(pair.mmc) for pair in pairs)])
    images = dict.fromkeys(f"{'first' if pair.mmc.limited else 'all'} {pair.mmc.samples:,}" for pair in pairs)
    seeds = "one training seed" if len(pairs) == 1 else f"{len(pairs)} training seeds"
    return f"{word}: {epochs} epochs, {seeds}, {listed(list(images))} images"


def _rows(pairs: list[_BudgetPair]) -> list[_Row]:
    """Few pairs with an interval each; of enough pairs, the mean with an interval over seeds."""
    few = len(pairs) < ENOUGH
    rows = [_Row(f"seed {pair.seed}", pair.points, pair.interval if few else None) for pair in pairs]
    if few:
        return rows
    spread = Difference(tuple(pair.points for pair in pairs))
    return [*rows, _Row("mean", spread.mean, spread.interval)]
