"""Planned seconds: from the table of speeds, or from what a run has measured itself on the same kind of device."""

from functools import cache
from importlib import resources
from pathlib import Path

from maxmahal.data import load_dataset
from maxmahal.data.registry import SOURCES
from maxmahal.data.source import Split
from maxmahal.reproduce.states import State
from maxmahal.settings import Table, read_toml
from maxmahal.train import Settings

UNKNOWN_SUITE = "strict"  # a user's own suite is planned as if it were this one
PLANNED_STEPS = 10  # of the crafting that the table's speeds were measured with


def training_seconds(settings: Settings, state: State, device: str, data_dir: Path | None) -> float:
    """What is left of a training."""
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
    settings: Settings, suite: str, samples: int, state: State, device: str, *, smaller: bool = False
) -> float:
    """What is left of the evaluation of one model; in a ball ``smaller`` than the suite's any model may stand long."""
    if state.ended:
        return 0.0
    falls = settings.method.name == "standard" and not smaller
    table = speeds()["evaluation"][device]["plain" if falls else "robust"]
    whole = float(table.get(suite, table[UNKNOWN_SUITE])) * samples / 1000 * _cost(settings)
    return float(speeds()["start"][device]) + whole * (1 - state.share)


@cache
def speeds() -> Table:
    """The table as shipped."""
    return read_toml(Path(str(resources.files("maxmahal") / "reproduce" / "speeds.toml")))


@cache
def count_images(source: str, split: Split, data_dir: Path | None) -> int:
    """How many images a data set has; of a published one it is known without its files."""
    if source in SOURCES:
        return sum(SOURCES[source].class_counts[split])
    return len(load_dataset(source, split, data_dir))


def _cost(settings: Settings) -> float:
    return float(speeds()["cost"].get(settings.model.backbone, 1.0))
