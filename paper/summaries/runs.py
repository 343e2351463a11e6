"""Summaries of training runs: settings, device, what each epoch measured and how long it took."""

import math
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from maxmahal.errors import CheckpointError
from maxmahal.evaluate.fingerprints import fingerprint_model
from maxmahal.files import parse_json, read_text, user_path
from maxmahal.records.schema import RecordsError
from maxmahal.settings import read_toml
from maxmahal.train import RunFolder, load_model
from paper.summaries.evaluations import read_object

FORMAT = "maxmahal-run-summary-1"
BEST = "-best"  # how the name of a training's best checkpoint ends; the last one has the training's own name
HALF = "half"
"""The last checkpoint in half precision; a run that has one is evaluated and published with these weights."""
_DIGITS = 5


@dataclass(frozen=True)
class RunSummary:
    """One training."""

    name: str
    finished: bool
    settings: dict[str, Any]
    device: str
    """Such as "cuda:0"; empty until the run is finished."""
    epochs: tuple[dict[str, Any], ...]
    """One entry per epoch: epoch, train_seconds, test_accuracy, train_loss, ..."""
    train_seconds: float
    result: dict[str, Any]
    """The last and the best checkpoint's scores, versions; {} until the run is finished."""
    gpu: str = ""
    """Its name; empty on a CPU, and if not recorded."""
    sharing: int = 1
    """How many trainings of one command ran at once, which slow each other down."""
    weights: dict[str, str] = field(default_factory=dict)
    """The fingerprints of its "last", "best" and "half" checkpoints, as far as recorded."""
    diverged: int = 0
    """The epoch in which it diverged; 0 if it did not."""

    def made(self, name: str, fingerprint: str) -> bool:
        """Whether it may be the training of a model that was evaluated with these weights."""
        own = self.weights.get("best" if name.endswith(BEST) else "last", fingerprint)
        return fingerprint in (own, self.weights.get(HALF))


def summarise_run(folder: str | Path) -> dict[str, Any]:
    """What is published of a run folder, as a table for JSON."""
    run = RunFolder(user_path(folder))
    if not holds_training(run):
        raise CheckpointError(f"{run.path} holds no run with a finished epoch; train it first.")
    try:
        epochs = [_rounded(entry) for entry in run.read_metrics()]
        result = _rounded(parse_json(read_text(run.result))) if run.result.exists() else {}
        diverged = parse_json(read_text(run.diverged)) if run.diverged.exists() else {}
    except ValueError as error:
        raise CheckpointError(f"{run.path} holds damaged metrics or results ({error}); train it again.") from error
    return {
        "format": FORMAT,
        "name": run.path.resolve().name,
        "finished": bool(result),
        "settings": read_toml(run.settings) if run.settings.exists() else diverged["settings"],
        "device": str(result.get("device", "")),
        "gpu": str(result.get("gpu", "")),
        "sharing": int(result.get("sharing", 1)),
        "weights": _weights(run),
        "epochs": epochs,
        "train_seconds": epochs[-1]["train_seconds"] if epochs else 0.0,
        "result": {key: value for key, value in result.items() if key != "settings"},
        **({"diverged": diverged["epoch"]} if diverged else {}),
    }


def holds_training(run: RunFolder) -> bool:
    """Whether a folder holds a training that finished an epoch, or diverged in one."""
    return run.diverged.exists() or (run.settings.exists() and run.metrics.exists())


def half_checkpoint(run: RunFolder) -> Path:
    """Where the last checkpoint of a run lies in half precision, if it was written."""
    return run.path / f"{HALF}.safetensors"


def read_run(path: Path) -> RunSummary:
    """The summary of a run in a file."""
    content = read_object(path, FORMAT)
    try:
        return RunSummary(
            name=content["name"],
            finished=content["finished"],
            settings=dict(content["settings"]),
            device=content["device"],
            epochs=tuple(dict(entry) for entry in content["epochs"]),
            train_seconds=float(content["train_seconds"]),
            result=dict(content["result"]),
            gpu=str(content.get("gpu", "")),
            sharing=int(content.get("sharing", 1)),
            weights=dict(content.get("weights", {})),
            diverged=int(content.get("diverged", 0)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RecordsError(
            f"{path} is a damaged summary ({type(error).__name__}: {error}); collect it again from its run."
        ) from error


def _weights(run: RunFolder) -> dict[str, str]:
    found = {}
    for name, path in (("last", run.last), ("best", run.best), (HALF, half_checkpoint(run))):
        with suppress(CheckpointError):  # gone, damaged, or of a network of the user's own: not known
            found[name] = fingerprint_model(load_model(path))
    return found


def _rounded(value: Any) -> Any:
    """Every number to five significant digits; what diverged is null in JSON."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value
