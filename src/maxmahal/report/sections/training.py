"""Test error against training time (the paper's Figure 3a)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from maxmahal.report.chart import Axis, Chart
from maxmahal.report.layout import ReportedModel
from maxmahal.report.wording import duration, percent

_MARKED = 30
_APART = 5  # if training times differ by a larger factor, their axis is logarithmic


@dataclass(frozen=True)
class TrainedModel:
    """The epochs of one model, each with its training time and its test accuracy."""

    label: str
    slot: int
    epochs: list[dict[str, Any]]


def training_values(models: Sequence[ReportedModel]) -> dict[str, object]:
    """Nothing if no model has a record of its training."""
    trained = trained_models(models)
    return {"chart": training_chart(trained), "models": trained} if trained else {}


def trained_models(models: Sequence[ReportedModel]) -> list[TrainedModel]:
    """The models that have a record of their training."""
    found = [TrainedModel(model.label, model.slot, measured_epochs(model.evaluation.training)) for model in models]
    return [each for each in found if each.epochs]


def measured_epochs(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that can be drawn."""
    return [each for each in entries if "train_seconds" in each and each.get("test_accuracy") is not None]


def training_chart(models: Sequence[TrainedModel]) -> Chart:
    """Test error against training time, one line per model."""
    every = [entry for model in models for entry in model.epochs]
    errors, times = [_error(entry) for entry in every], [entry["train_seconds"] for entry in every]
    first, latest = min(times), max(times)
    least = min((error for error in errors if error > 0), default=0.0)
    log = least > 0 and max(errors) / least > 5 and min(errors) > 0
    low, high = (least / 1.15, min(max(errors) * 1.15, 1.0)) if log else (0.0, max(max(errors), 0.01))
    unit, name = (3600.0, "hours") if latest > 7200 else (60.0, "minutes") if latest > 300 else (1.0, "seconds")
    quickest = min(model.epochs[-1]["train_seconds"] for model in models)
    spread = first > 0 and latest / quickest > _APART
    x = Axis(
        f"training time in {name}", (first if spread else 0.0) / unit, latest / unit, "log" if spread else "linear"
    )
    y = Axis("test error in %", low, high, "log" if log else "linear", text=lambda share: f"{100 * share:.3g}")
    chart = Chart("Test error against training time", x, y)
    for model in models:
        epochs = model.epochs
        times, faults = [entry["train_seconds"] / unit for entry in epochs], [_error(entry) for entry in epochs]
        chart.line(times, faults, model.slot)
        some = range(0, len(epochs), max(1, len(epochs) // _MARKED))
        tips = []
        for entry in (epochs[index] for index in some):
            when = f"epoch {entry['epoch']}, " if "epoch" in entry else ""
            error = f"test error {percent(_error(entry))} %"
            tips.append(f"{model.label}, {when}{duration(entry['train_seconds'])}: {error}")
        chart.points([times[index] for index in some], [faults[index] for index in some], model.slot, tips)
    return chart


def _error(entry: dict[str, Any]) -> float:
    return 1.0 - float(entry["test_accuracy"])
