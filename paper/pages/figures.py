"""The published figures, from summaries: training curves, transfer matrices, and adversarial training as a trade."""

from collections.abc import Sequence
from itertools import cycle

from maxmahal.records.statistics import Rate
from maxmahal.report.chart import SERIES, Axis, Chart, Key, Text, arranged, cross, heat_map
from maxmahal.report.wording import listed
from paper.pages.compare import BUDGETS, SUITE, crafting, is_transfer
from paper.pages.models import ADVERSARIAL, ADVERSARIAL_CIFAR100, ANCHORS, DATA, PLAIN, TABLE_1, TABLE_4, data_of
from paper.pages.results import Published, has_own_threat
from paper.pages.training import AROUND, batch_of, is_finished, medians, state_of, tested, why_not_timed
from paper.summaries import RunSummary

_CURVES = {
    "training.svg": tuple(f"{name}-alone" for name in (PLAIN[0], PLAIN[-1], *ADVERSARIAL[:2])),
    "training-epochs.svg": tuple(name for name in TABLE_1 if "at-un" not in name),  # as in the paper: AT is targeted
    "training-cifar100.svg": TABLE_4,
    "training-cifar100-at.svg": ADVERSARIAL_CIFAR100,
}

_TICKS = (1, 2, 3, 5, 7, 10, 15, 20, 25, 30, 35, 40, 50, 70, 100)
"""Test errors in percent beside a logarithmic axis."""

_SLOTS = {"sce": 0, "mmc": 1, "mmlda": 2, "lgm": 3, "center": 4, "mmc-rand": 7}
"""Colours of the losses without adversarial training."""
_TITLE = "Adversarial training on CIFAR-10"


def figures(results: Published) -> dict[str, str]:
    """Every figure that the summaries have data for, by its file's name."""
    curves = {file: training(results, names) for file, names in _CURVES.items()}
    found = {**curves, "trade.svg": trade(results), **transfers(results)}
    return {name: text for name, text in found.items() if text}


def training(results: Published, names: Sequence[str]) -> str:
    """Test error of some models, of finished runs only; empty without one.

    Against training time, as in the paper's Fig. 3a, if the times can be compared; else against epochs.
    """
    known = {
        results.title(name.removesuffix("-alone")): run for name in names if (run := results.run(name)) is not None
    }
    runs = {title: run for title, run in known.items() if is_finished(run) and _curve(run, timed=False)}
    slots = _slots(list(runs.values()))
    if not runs:
        return ""
    why = why_not_timed(list(runs.values()), one_batch=False)
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
    figure = " (Figure 3a)" if data == "cifar10" and not why else ""
    chart = Chart(f"{what} on {DATA[data]}{figure}", across, upward, width=402.0, height=340.0)
    for slot, curve in zip(slots, curves, strict=True):
        chart.line([x for x, _ in curve], [y for _, y in curve], slot)
    legend = [Key(f"s{slot}", label) for slot, label in zip(slots, _labels(runs), strict=True)]
    note = _note(why, {title: run for title, run in known.items() if not is_finished(run)})
    return arranged(chart.title, [chart], 1, legend, note).file()


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
    own = [_SLOTS.get(run.name.removesuffix("-alone").partition("-")[2]) for run in runs]
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


def trade(results: Published) -> str:
    """Clean accuracy against AutoAttack of adversarial training on CIFAR-10, with public rows; empty without models.

    A model that AutoAttack has not seen is drawn with its worst case under strict, and says so.
    """
    found = {
        (kind, loss): [each for name in results.seeds(base) if (each := _traded(results, name)) is not None]
        for kind, bases in BUDGETS.items()
        for loss, base in enumerate(bases)
    }
    found["resnet47v2", 1] = [each for each in [_traded(results, ANCHORS[0].ours)] if each is not None]
    dots = [dot for group in found.values() for dot in group]
    if not dots:
        return ""
    ends = [100 * end for _, worst, _ in dots for end in worst.interval]
    across = Axis.around("clean accuracy in %", [*(clean for clean, *_ in dots), *(row.clean for row in ANCHORS)])
    upward = Axis.around("AutoAttack 8/255 in %", [*ends, min(ends) - 2])
    chart = Chart(_TITLE, across, upward, width=402.0, height=185.0)
    for (kind, loss), group in found.items():
        for clean, worst, _ in group:
            chart.line([clean, clean], [100 * end for end in worst.interval], loss)
            chart.points([clean], [100 * worst.value], loss)
        for clean, worst, strict in group[-1:]:
            x, y = chart.place(clean, 100 * worst.interval[loss])
            words = kind.replace("untargeted", "un").replace("targeted", "tar") + strict
            chart.parts.append(Text(x, y + (-5 if loss else 24 if strict else 14), words, anchor="middle"))
    for row in ANCHORS:
        x, y = chart.place(row.clean, row.autoattack)
        chart.parts += [*cross(x, y), Text(x, y - 10, f"{row.clean:.2f}", "ink", anchor="middle")]
    legend = [Key("s0", "AT (SCE)"), Key("s1", "AT (MMC-10)")]
    return arranged(
        _TITLE, [chart], legend=legend, note="Bars: 95 % intervals over images. Crosses: public results."
    ).file()


def _traded(results: Published, model: str) -> tuple[float, Rate, str] | None:
    """Clean accuracy in percent, the worst case, and a remark if that is of strict."""
    clean, worst, strict = results.clean(model), results.robust(model, SUITE), ""
    if worst is None:
        worst, strict = results.robust(model, "strict"), " (strict)"
    return None if clean is None or worst is None or worst.rate is None else (clean.value, worst.rate, strict)
