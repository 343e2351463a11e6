"""The state of a run after an epoch: everything that is needed to resume it exactly."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from maxmahal.errors import CheckpointError
from maxmahal.files import parse_json
from maxmahal.models import Classifier
from maxmahal.settings import Table, from_table
from maxmahal.train.checkpoint import fill, read_tensors, save_tensors
from maxmahal.train.config import drop_retired
from maxmahal.train.optimiser import WeightAverage, momentum_tensors, restore_momentum

FORMAT = "maxmahal-state-1"


@dataclass
class RunProgress:
    """The counters of a run."""

    epoch: int = 0
    train_seconds: float = 0.0
    best_epoch: int = 0
    best_score: float = -1.0
    threads: int = 0
    processes: int = 1
    settings: str = ""

    @property
    def table(self) -> Table:
        """The settings that the run began with."""
        return drop_retired(parse_json(self.settings))


def save_state(
    path: Path, model: Classifier, optimiser: torch.optim.SGD, average: WeightAverage | None, progress: RunProgress
) -> None:
    """Write one file atomically, so that weights, momentum and counters always belong together."""
    tensors = _prefixed("model", model.state_dict()) | _prefixed("momentum", momentum_tensors(model, optimiser))
    if average is not None:
        tensors |= _prefixed("average", average.model.state_dict())
    tensors["random.cpu"] = torch.get_rng_state()
    device = next(model.parameters()).device
    if device.type == "cuda":
        tensors["random.cuda"] = torch.cuda.get_rng_state(device)
    save_tensors(path, tensors, {"format": FORMAT, "progress": json.dumps(asdict(progress))})


def load_progress(path: Path) -> RunProgress:
    """The counters in a state file."""
    _, metadata = read_tensors(path)  # the whole file, to check its fingerprint
    if metadata.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not the state of a run of this version of maxmahal; start a new run folder.")
    try:
        progress = from_table(RunProgress, parse_json(metadata["progress"]))
        epochs = progress.table["train"]["epochs"]
        if not (0 < progress.epoch <= epochs and 0 <= progress.best_epoch <= progress.epoch):
            raise ValueError(f"epoch {progress.epoch} of {epochs}")
    except (KeyError, ValueError, TypeError) as error:
        raise CheckpointError(f"{path} has damaged metadata ({error}); start a new run folder.") from error
    return progress


def load_state(path: Path, model: Classifier, optimiser: torch.optim.SGD, average: WeightAverage | None) -> None:
    """Restore everything that ``save_state`` saved."""
    tensors, _ = read_tensors(path)
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    momentum = _group(tensors, "momentum")
    fill(model, _group(tensors, "model"), path)
    if average is not None:
        fill(average.model, _group(tensors, "average"), path)
    try:
        if any(tensor.shape != shapes.get(name) for name, tensor in momentum.items()):
            raise RuntimeError("its momentum has other shapes than the model")
        restore_momentum(model, optimiser, momentum)
        torch.set_rng_state(tensors["random.cpu"])
        device = next(model.parameters()).device
        if device.type == "cuda" and "random.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random.cuda"], device)
    except (KeyError, RuntimeError, TypeError) as error:
        raise CheckpointError(f"{path} holds a damaged momentum or random state; start a new run folder.") from error


def _prefixed(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def _group(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(f"{prefix}."): tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")
    }
