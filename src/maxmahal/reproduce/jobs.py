"""What a worker process is told to do, as a file of JSON."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from maxmahal.files import write_text_atomically
from maxmahal.settings import Table


@dataclass(frozen=True)
class TrainJob:
    """Train one model, or go on with it."""

    settings: Table
    out: str
    device: str
    data_dir: str | None
    sharing: int = 1
    """How many workers the device is shared by."""


@dataclass(frozen=True)
class EvaluateJob:
    """One suite on one model, or on several at once where they are crafted on for one another."""

    targets: dict[str, str]
    data: str
    out: str
    suite: str
    limit: int | None
    transfer: bool
    device: str
    data_dir: str | None
    trusted: list[str] = field(default_factory=list)
    """Code that the grid's presets name: ``module:function``."""
    epsilon: str | None = None
    """In place of the suite's own."""


@dataclass(frozen=True)
class ReportJob:
    """The page of a grid."""

    records: str
    wanted: list[list[str | int | float]]
    """The ``Identity`` of each evaluation to show, in that order."""
    runs: dict[str, str]
    """Run folders by name, for a grid that evaluates nothing."""
    title: str
    out: str


PROGRESS = "progress: "  # a worker's lines that start so are shown by its parent
WATCHED = "--watched"  # tells a worker to end with its parent

Job = TrainJob | EvaluateJob | ReportJob
_KINDS: dict[str, type[Job]] = {"train": TrainJob, "evaluate": EvaluateJob, "report": ReportJob}


def write_job(path: Path, job: Job, until: float | None) -> None:
    """``until`` is the moment of ``time.monotonic()`` at which to have stopped."""
    kind = next(name for name, cls in _KINDS.items() if isinstance(job, cls))
    write_text_atomically(path, json.dumps({"kind": kind, "until": until, "job": asdict(job)}, indent=2) + "\n")


def read_job(path: Path) -> tuple[Job, float | None]:
    """The inverse of ``write_job``."""
    table = json.loads(path.read_text(encoding="utf-8"))
    return _KINDS[table["kind"]](**table["job"]), table["until"]
