"""The published figures, from summaries: training curves, transfer matrices, and the two budgets."""

from collections.abc import Sequence

from maxmahal.evaluate.summary import RunSummary, Summary
from maxmahal.report.published.adversarial import SUITE
from maxmahal.report.published.drawing import COLOURS, heat_map, with_legend
from maxmahal.report.published.models import (
    ADVERSARIAL_CIFAR100,
    DATA,
    LONG,
    SHORT,
    TABLE_1,
    TABLE_4,
    data_of,
    title_of,
)
from maxmahal.report.published.shelf import Shelf, in_own_ball
from maxmahal.report.published.tables import crafting, is_transfer, trained_epochs
from maxmahal.report.scales import Axis
from maxmahal.report.svg import Chart
from maxmahal.report.wording import percent

_CURVES = {
    "training.svg": tuple(name for name in TABLE_1 if "at-un" not in name),  # as in the paper, where AT is targeted
    "training-cifar100.svg": (*TABLE_4, *ADVERSARIAL_CIFAR100),
}
_APART = 0.07  # between the dots of one budget


def figures(shelf: Shelf) -> dict[str, str]:
    """Every figure that the summaries have something for, by its file's name."""
    curves = {file: training(shelf, names) for file, names in _CURVES.items()}
    found = {**curves, "budgets.svg": budgets(shelf), **transfers(shelf)}
    return {name: text for name, text in found.items() if text}


def training(shelf: Shelf, names: Sequence[str]) -> str:
    """Test error of some models against training time (paper Fig. 3a); empty without a run."""
    runs = [(name, measured) for name in names if (run := shelf.run(name)) and (measured := _measured(run))]
    if not runs:
        return ""
    seconds = [second for _, measured in runs for second, _ in measured]
    errors = [error for _, measured in runs for _, error in measured]
    minutes = Axis("training time in minutes", min(seconds) / 60, max(seconds) / 60, "log")
    low, high = max(min(errors) / 1.1, 0.001), min(max(errors) * 1.1, 1.0)
    error = Axis("test error in %", low, high, "log", text=lambda share: f"{100 * share:.3g}")
    data = DATA[data_of(names[0])]
    chart = Chart(f"Test error against training time on {data} (Figure 3a)", minutes, error, width=620.0, height=380.0)
    for place, (_, measured) in enumerate(runs):
        chart.line([second / 60 for second, _ in measured], [share for _, share in measured], place % COLOURS)
    return with_legend(chart, [(place % COLOURS, title_of(shelf, name)) for place, (name, _) in enumerate(runs)])


def budgets(shelf: Shelf) -> str:
    """Robust accuracy under AutoAttack at both budgets, a dot a training seed with its interval; empty without any."""
    dots: list[tuple[float, int, Summary]] = []
    ticks: dict[float, str] = {}
    for place, (word, bases) in enumerate((("short", SHORT), ("long", LONG))):
        for slot, base in enumerate(bases):
            seen = [found for name in shelf.seeds(base) if (found := shelf.find(name, SUITE)) is not None]
            for order, summary in enumerate(seen):
                dots.append((place + (slot * 2 - 1) * _APART * (1 + order), slot, summary))
                ticks[float(place)] = f"{word}, {trained_epochs(summary)} epochs"
    if not dots:
        return ""
    ends = [end for _, _, summary in dots for end in summary.robust.interval]
    across = Axis("training budget", -0.5, 1.5, at=tuple(ticks), text=lambda place: ticks[place])
    upward = Axis("robust accuracy in %", max(min(ends) - 0.02, 0.0), min(max(ends) + 0.02, 1.0), text=percent)
    chart = Chart("AT (SCE) and AT (MMC-10) under AutoAttack", across, upward, width=520.0, height=340.0)
    for x, slot, summary in dots:
        chart.line([x, x], list(summary.robust.interval), slot)
        chart.points([x], [summary.robust.value], slot, [f"{summary.name}: {summary.robust}"])
    return with_legend(chart, [(0, "AT (SCE)"), (1, "AT (MMC-10)")])


def transfers(shelf: Shelf) -> dict[str, str]:
    """A matrix for each suite and way of crafting that showed models each other's images (paper Fig. 4)."""
    found: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for each in filter(in_own_ball, shelf.evaluations):
        for stage in each.stages:
            if is_transfer(stage) and stage.accuracy is not None:
                shown = found.setdefault((each.suite, crafting(stage)), {}).setdefault(each.name, {})
                shown[stage.source] = stage.accuracy.value
    return {
        f"transfer-{suite}-{_slug(way)}.svg": _matrix(shelf, f"{suite}, {way}", targets)
        for (suite, way), targets in found.items()
    }


def _matrix(shelf: Shelf, what: str, targets: dict[str, dict[str, float]]) -> str:
    sources = sorted({source for shown in targets.values() for source in shown}, key=_place)
    names = sorted(targets, key=_place)
    shares = [[targets[name].get(source) for name in names] for source in sources]
    rows, columns = ([title_of(shelf, name) for name in each] for each in (sources, names))
    return heat_map(f"{what}: crafted on (rows), shown to (columns), accuracy in %", rows, columns, shares)


def _place(model: str) -> tuple[int, str]:
    """In the order of the paper's first table."""
    return (TABLE_1.index(model) if model in TABLE_1 else len(TABLE_1), model)


def _slug(text: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in text.lower()).strip("-")


def _measured(run: RunSummary) -> list[tuple[float, float]]:
    """Seconds and test errors; none is zero, so that both may stand on logarithmic axes."""
    entries = [entry for entry in run.epochs if entry.get("test_accuracy") is not None and entry["train_seconds"] > 0]
    return [(float(entry["train_seconds"]), max(1 - float(entry["test_accuracy"]), 0.001)) for entry in entries]
