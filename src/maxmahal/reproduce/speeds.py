"""Planned seconds: from a table of speeds, or as measured by the run itself on the same kind of device."""

from functools import cache
from importlib import resources
from pathlib import Path

from maxmahal.data import load_dataset
from maxmahal.data.registry import SOURCES
from maxmahal.data.source import Split
from maxmahal.evaluate.durations import Speed, diagnostics_seconds, stage_seconds
from maxmahal.evaluate.suite import Suite
from maxmahal.imports import only_named
from maxmahal.reproduce.states import CellState
from maxmahal.settings import Table, read_toml
from maxmahal.train import Settings

PLANNED_STEPS = 10  # PGD steps with which the speeds of adversarial training were measured


def training_seconds(settings: Settings, state: CellState, device: str, data_dir: Path | None) -> float:
    """The planned time of the rest of a training."""
    if state.ended:
        return 0.0
    start = float(speeds()["start"][device])
    if state.seconds_left is not None and state.measured_on == device:
        return start + state.seconds_left
    images = count_images(settings.data.source, "train", data_dir) - settings.data.validation
    if settings.data.limit is not None:
        images = min(images, settings.data.limit)
    rates = speeds()["training"][device]
    rate = rates.get(settings.method.name, rates["adversarial"])
    steps = int(dict(settings.method.options).get("steps", PLANNED_STEPS))
    crafting = (steps + 1) / (PLANNED_STEPS + 1)
    whole = settings.train.epochs * images / float(rate) * crafting * _cost(settings)
    return start + whole * (1 - state.share)


def evaluation_seconds(
    settings: Settings, suite: Suite, samples: int, state: CellState, device: str, *, smaller: bool = False
) -> float:
    """The planned time of the rest of an evaluation; in a ``smaller`` ball than the suite's any model may be robust."""
    if state.ended:
        return 0.0
    falls = settings.method.name == "standard" and not smaller
    robust = float(speeds()["robust"]["plain" if falls else "adversarial"])
    speed = Speed(**speeds()["evaluation"][device])
    # At most nine targets in most suites, whatever the number of classes.
    with only_named(suite.to_table()):
        planned = stage_seconds(suite.stages, samples, speed, classes=10, correct=0.9, robust=robust)
    checks = diagnostics_seconds(samples, speed, robust) if suite.diagnose else 0.0
    whole = (sum(filter(None, planned)) + checks) * _cost(settings)
    return float(speeds()["start"][device]) + whole * (1 - state.share)


@cache
def speeds() -> Table:
    """The shipped table."""
    return read_toml(Path(str(resources.files("maxmahal") / "reproduce" / "speeds.toml")))


@cache
def count_images(source: str, split: Split, data_dir: Path | None) -> int:
    """The number of images of a data set; for a published one, known without its files."""
    if source in SOURCES:
        return sum(SOURCES[source].class_counts[split])
    return len(load_dataset(source, split, data_dir, stream=True))


def _cost(settings: Settings) -> float:
    return float(speeds()["cost"].get(settings.model.backbone, 1.0))
