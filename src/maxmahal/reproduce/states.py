"""What of a grid is done, partly done or missing, read from disk, and how long the rest takes."""

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

from safetensors import SafetensorError, safe_open

from maxmahal.attacks import parse_epsilon
from maxmahal.data import load_dataset
from maxmahal.data.registry import SOURCES
from maxmahal.data.source import Split
from maxmahal.errors import CheckpointError
from maxmahal.evaluate.durations import Speed, diagnostics_seconds, stage_seconds
from maxmahal.evaluate.fingerprints import fingerprint_model
from maxmahal.evaluate.suite import Suite
from maxmahal.files import opened
from maxmahal.imports import only_named
from maxmahal.records.schema import FILE, RecordsError, open_for_reading, parse_body, record_errors
from maxmahal.settings import Table, first_difference, read_toml, to_table
from maxmahal.train import RunFolder, Settings, load_model, load_settings
from maxmahal.train.config import what_counts

EvaluationKey = tuple[str, str, int, int, str, float]
"""Name, suite, seed, samples, norm and radius: unique for each evaluation in the records."""
PLANNED_STEPS = 10  # PGD steps with which the speeds of adversarial training were measured

_QUERY = """
SELECT name, suite, seed, samples, body,
    (SELECT COUNT(*) FROM stages WHERE evaluation = evaluations.id),
    (SELECT COUNT(*) FROM stages WHERE evaluation = evaluations.id AND (skipped != '' OR chunks = (
        SELECT COUNT(*) FROM chunks WHERE chunks.evaluation = stages.evaluation AND chunks.stage = stages.position))),
    finished
FROM evaluations ORDER BY id
"""


@dataclass(frozen=True)
class CellState:
    """The progress of a training or an evaluation."""

    kind: Literal["done", "half", "missing", "impossible"]
    detail: str = ""  # such as "epoch 37 of 200"
    share: float = 0.0  # the share of the work that is done
    seconds_left: float | None = None  # as measured so far; None if not measured
    measured_on: str = ""  # the kind of device that was measured: cpu or cuda; empty if not known

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do: it is done or impossible."""
        return self.kind in ("done", "impossible")


@dataclass(frozen=True)
class Recorded:
    """The progress of one evaluation in the records."""

    key: EvaluationKey
    version: int  # of the suite
    fingerprint: str  # of the model
    planned: int
    done: int  # stages, the clean images among them
    finished: bool


def training_state(path: Path, settings: Settings) -> CellState:
    """The state of the run in a folder; a run with other settings is an error."""
    folder = RunFolder(path)
    if folder.settings.exists():
        # Loaded, not compared as text: settings that this version added have their defaults.
        with only_named(to_table(settings)):
            difference = first_difference(what_counts(load_settings(folder.settings)), what_counts(settings))
        if difference:
            raise CheckpointError(f"{path} was trained with other settings ({difference}); choose another --out.")
    if folder.result.exists():
        return CellState("done", share=1.0)
    epochs, planned = folder.read_metrics(), settings.train.epochs
    diverged = folder.diverged_at(settings)
    if diverged is not None:
        return CellState("impossible", f"diverged at epoch {diverged}", len(epochs) / planned)
    if not epochs:
        return CellState("missing")
    last = epochs[-1]
    epoch = int(last["epoch"])
    left = float(last.get("train_seconds", 0.0)) / epoch * (planned - epoch)
    return CellState("half", f"epoch {epoch} of {planned}", epoch / planned, left, _device_kind(folder))


def _device_kind(folder: RunFolder) -> str:
    """Where a run was trained last: only a run on a GPU saves the random state of a GPU."""
    try:
        with opened(folder.state):
            pass  # not a pipe
        with safe_open(folder.state, framework="numpy") as state:
            return "cuda" if "random.cuda" in state.keys() else "cpu"  # noqa: SIM118 - it is no dictionary
    except (OSError, SafetensorError):
        return ""


def read_recorded(folder: Path) -> list[Recorded]:
    """Every evaluation in a folder of records; none if the folder does not exist."""
    path = folder / FILE
    if not path.is_file() or not path.stat().st_size:
        return []  # or another process is creating the tables
    with record_errors(path), closing(open_for_reading(folder)) as connection:
        return [_recorded(*row) for row in connection.execute(_QUERY)]


def _recorded(
    name: str, suite: str, seed: int, samples: int, body: str, planned: int, done: int, finished: int
) -> Recorded:
    same = parse_body("evaluations", body)["same"]
    told = same["suite"]
    # From the text: SQLite may read the last bit of the radius otherwise than Python wrote it.
    radius = parse_epsilon(told["epsilon"], largest=math.inf)
    key = name, suite, seed, samples, told["norm"], radius
    return Recorded(key, told["version"], same["model"], planned, done, bool(finished) and planned == done)


def evaluation_state(
    folder: Path,
    targets: Mapping[str, str],
    keys: Sequence[EvaluationKey],
    stages: int,
    version: int,
    trusted: Sequence[str],
) -> CellState:
    """The state of the evaluation of these checkpoints under a suite with ``stages`` stages.

    Results of another version of the suite are kept if they are complete; a partial one cannot be resumed.
    """
    found = [
        each for each in read_recorded(folder) if each.key in keys and is_of(Path(targets[each.key[0]]), each, trusted)
    ]
    older = next((each for each in found if each.version != version), None)
    if len(found) == len(keys) and all(each.finished for each in found):
        newer = f"by version {older.version} of the suite; use another --out for version {version}" if older else ""
        return CellState("done", newer, share=1.0)
    if older:
        name, suite, *_ = older.key
        raise RecordsError(
            f"{name} was evaluated in part under version {older.version} of {suite}, which is {version} now; "
            "choose another --out."
        )
    if not found:
        return CellState("missing")
    done = sum(max(each.planned, stages) if each.finished else each.done for each in found)
    planned = sum(max(each.planned, stages) for each in found) + stages * (len(keys) - len(found))
    return CellState("half", f"{done} of {planned} stages", done / planned)


def is_of(checkpoint: Path, recorded: Recorded, trusted: Sequence[str] = ()) -> bool:
    """Whether an evaluation is of this checkpoint; False if the file does not exist."""
    file = checkpoint / "last.safetensors" if checkpoint.is_dir() else checkpoint
    return file.is_file() and _fingerprint(file, file.stat().st_mtime_ns, tuple(trusted)) == recorded.fingerprint


@cache
def _fingerprint(file: Path, written: int, trusted: tuple[str, ...]) -> str:  # noqa: ARG001 - part of the cache's key
    return fingerprint_model(load_model(file, trusted=trusted))


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
