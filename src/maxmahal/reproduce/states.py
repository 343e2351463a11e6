"""What is done, half done or missing, from the disk alone."""

import json
import math
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from safetensors import SafetensorError, safe_open

from maxmahal.attacks import parse_epsilon
from maxmahal.errors import CheckpointError
from maxmahal.evaluate.fingerprints import fingerprint_model
from maxmahal.imports import only_named
from maxmahal.records.schema import FILE, PATIENCE, RecordsError, record_errors
from maxmahal.settings import first_difference, to_table
from maxmahal.train import RunFolder, Settings, load_model, load_settings
from maxmahal.train.config import what_counts
from maxmahal.train.folder import Record

Kind = Literal["done", "half", "missing", "impossible"]
Identity = tuple[str, str, int, int, str, float]
"""Name, suite, seed, samples, norm and radius: what tells evaluations apart in the records."""

_QUERY = """
SELECT name, suite, json_extract(body, '$.same.suite.version'), seed, samples,
    json_extract(body, '$.same.suite.norm'), json_extract(body, '$.same.suite.epsilon'),
    json_extract(body, '$.same.model'),
    (SELECT COUNT(*) FROM stages WHERE evaluation = evaluations.id),
    (SELECT COUNT(*) FROM stages WHERE evaluation = evaluations.id AND (skipped != '' OR chunks = (
        SELECT COUNT(*) FROM chunks WHERE chunks.evaluation = stages.evaluation AND chunks.stage = stages.position))),
    finished
FROM evaluations ORDER BY id
"""


@dataclass(frozen=True)
class State:
    """How far a training or an evaluation has come."""

    kind: Kind
    detail: str = ""
    """Such as "epoch 37 of 200"."""
    share: float = 0.0
    """How much of the work is behind it."""
    seconds_left: float | None = None
    """As measured so far; None where nothing is."""
    measured_on: str = ""
    """The kind of device that was measured: cpu or cuda; empty where that is not known."""

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to do, be it done or impossible."""
        return self.kind in ("done", "impossible")


@dataclass(frozen=True)
class Recorded:
    """One evaluation as the records know it."""

    name: str
    suite: str
    version: int
    """Of the suite."""
    seed: int
    samples: int
    norm: str
    epsilon: str
    fingerprint: str
    """Of the model."""
    planned: int
    done: int
    """Stages, the clean images among them."""
    finished: bool

    @property
    def identity(self) -> Identity:
        """What tells it apart."""
        # From the text: SQLite may read the last bit of the radius otherwise than Python wrote it.
        radius = parse_epsilon(self.epsilon, largest=math.inf)
        return self.name, self.suite, self.seed, self.samples, self.norm, radius


def training_state(path: Path, settings: Settings) -> State:
    """Of the run in a folder; one that was trained with other settings is an error."""
    folder = RunFolder(path)
    if folder.settings.exists():
        # Loaded, not compared as text: settings that this version has added stand at their defaults.
        with only_named(to_table(settings)):
            difference = first_difference(what_counts(load_settings(folder.settings)), what_counts(settings))
        if difference:
            raise CheckpointError(f"{path} was trained with other settings ({difference}); choose another --out.")
    if folder.result.exists():
        return State("done", share=1.0)
    epochs, planned = read_epochs(folder), settings.train.epochs
    diverged = folder.diverged_at(settings)
    if diverged is not None:
        return State("impossible", f"diverged at epoch {diverged}", len(epochs) / planned)
    if not epochs:
        return State("missing")
    last = epochs[-1]
    epoch = int(last["epoch"])
    left = float(last["train_seconds"]) / epoch * (planned - epoch)
    return State("half", f"epoch {epoch} of {planned}", epoch / planned, left, _device_kind(folder))


def _device_kind(folder: RunFolder) -> str:
    """Where a run was trained last: only on a GPU does it keep the state of a GPU's random numbers."""
    try:
        with safe_open(folder.state, framework="numpy") as state:
            return "cuda" if "random.cuda" in state.keys() else "cpu"  # noqa: SIM118 - it is no dictionary
    except (OSError, SafetensorError):
        return ""


def read_epochs(folder: RunFolder) -> list[Record]:
    """Every epoch that was measured; a last line torn by a kill does not count."""
    try:
        lines = folder.metrics.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    epochs: list[Record] = []
    for line in lines:
        try:
            epochs.append(json.loads(line))
        except ValueError:
            break
    return epochs


def read_recorded(folder: Path) -> list[Recorded]:
    """Every evaluation in a folder of records; none where there is no such folder."""
    path = folder / FILE
    if not path.is_file():
        return []
    with record_errors(path), closing(sqlite3.connect(path, timeout=PATIENCE)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'chunks'").fetchone():
            return []  # another process is about to make the tables
        return [Recorded(*(*facts, bool(finished))) for *facts, finished in connection.execute(_QUERY)]


def look_at_records(
    folder: Path,
    targets: Mapping[str, str],
    identities: Sequence[Identity],
    stages: int,
    version: int,
    trusted: Sequence[str],
) -> State:
    """Of the evaluation of these checkpoints, each with its identity, under a suite of so many stages."""
    found = [
        each
        for each in read_recorded(folder)
        if each.identity in identities and is_of(Path(targets[each.name]), each, trusted)
    ]
    return evaluation_state(found, len(identities), stages, version)


def unless_diverged(look: Callable[[], State], trainings: Mapping[str, Callable[[], State]]) -> State:
    """Of an evaluation: one that is not done never will be where a training that it needs has diverged."""
    state = look()
    diverged = [name for name, training in trainings.items() if training().kind == "impossible"]
    if state.kind == "done" or not diverged:
        return state
    return replace(state, kind="impossible", detail=f"impossible because {' and '.join(diverged)} diverged")


def evaluation_state(found: list[Recorded], wanted: int, stages: int, version: int) -> State:
    """Of an evaluation of so many models under a suite of so many stages, from those that the records know.

    What another version of the suite has measured stays as it is; what it has begun cannot be gone on with.
    """
    older = next((each for each in found if each.version != version), None)
    if len(found) == wanted and all(each.finished for each in found):
        newer = f"by version {older.version} of the suite; another --out measures by version {version}" if older else ""
        return State("done", newer, share=1.0)
    if older:
        raise RecordsError(
            f"{older.name} was evaluated in part under version {older.version} of {older.suite}, which is {version} "
            "now; choose another --out."
        )
    if not found:
        return State("missing")
    done = sum(max(each.planned, stages) if each.finished else each.done for each in found)
    planned = sum(max(each.planned, stages) for each in found) + stages * (wanted - len(found))
    return State("half", f"{done} of {planned} stages", done / planned)


def is_of(checkpoint: Path, recorded: Recorded, trusted: Sequence[str] = ()) -> bool:
    """Whether an evaluation is one of this very checkpoint; False where there is none (any more)."""
    file = checkpoint / "last.safetensors" if checkpoint.is_dir() else checkpoint
    return file.is_file() and _fingerprint(file, file.stat().st_mtime_ns, tuple(trusted)) == recorded.fingerprint


@cache
def _fingerprint(file: Path, written: int, trusted: tuple[str, ...]) -> str:  # noqa: ARG001 - read again if written again
    return fingerprint_model(load_model(file, trusted=trusted))
