"""Checkpoints, and the state to resume a run exactly: safetensors with a fingerprint. Loading never executes code."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from maxmahal.errors import CheckpointError, SettingsError
from maxmahal.files import opened, parse_json, user_path, write_atomically
from maxmahal.imports import names_a_function, nothing_named, only_named
from maxmahal.models import Classifier
from maxmahal.settings import Table, from_table, to_table
from maxmahal.train.build import empty_classifier, own_backbone
from maxmahal.train.config import Settings, drop_retired
from maxmahal.train.device import pick_device
from maxmahal.train.optimiser import WeightAverage, momentum_tensors, restore_momentum
from maxmahal.train.perturbations import Perturbations
from maxmahal.version import __version__

FORMAT, STATE_FORMAT = "maxmahal-checkpoint-1", "maxmahal-state-1"
FINGERPRINT = "fingerprint"
"""The key of the fingerprint in a file's metadata. It detects damage, not forgery, because anybody can compute it; so
files of earlier versions, which have none, are accepted."""
_LARGEST_SIDE = 100_000


@dataclass(frozen=True)
class ModelCard:
    """What is needed to rebuild a model around its weights."""

    settings: Settings
    image_shape: tuple[int, int, int]
    class_names: tuple[str, ...]
    epoch: int


def save_model(path: Path, model: Classifier, card: ModelCard, *, half: bool = False) -> None:
    """Weights and everything needed to rebuild the model around them.

    ``half`` stores the backbone's kernels and matrices as float16. They are loaded as float32 with rounded values: a
    slightly different model with a fingerprint of its own, so evaluate the file. All else stays exact, because it is
    small and its meaning may depend on it: centers, scale, normalisation, batch norm, biases, buffers.
    """
    metadata = {"format": FORMAT, "version": __version__, "model": json.dumps(to_table(card))}
    tensors = model.state_dict()
    for name, weight in model.backbone.named_parameters(prefix="backbone", remove_duplicate=False) if half else ():
        if weight.ndim > 1 and weight.dtype == torch.float32:
            tensors[name] = _rounded(weight.detach())
    save_tensors(path, tensors, metadata)


def _rounded(weight: Tensor) -> Tensor:
    """As float16; unchanged if values are beyond its range, or so small that they would lose more than 0.1 %."""
    half, exact = weight.half(), weight.double()
    return half if (half.double() - exact).norm() <= 1e-3 * exact.norm() else weight


def load_card(path: Path) -> ModelCard:
    """The model card in a checkpoint's metadata; the weights are not read."""
    return parse_card(path, read_metadata(path))


def load_model(
    path: str | Path,
    *,
    backbone: nn.Module | None = None,
    trusted: Sequence[str] = (),
    device: torch.device | str = "cpu",
) -> Classifier:
    """The model saved at ``path`` (a checkpoint, or a run folder: its last one), in evaluation mode.

    A network of the user's own ``module:factory`` is needed as ``backbone``, or its name in ``trusted``.
    """
    path = user_path(path)
    if path.is_dir():
        path = path / "last.safetensors"
    tensors, metadata = read_tensors(path)
    with only_named(trusted):
        card = parse_card(path, metadata)
        if backbone is None and names_a_function(name := card.settings.model.backbone):
            networks = [each for each in trusted if each != card.settings.loss.name]
            if name not in trusted and len(networks) == 1:
                name = networks[0]  # the only trusted network replaces the one that the checkpoint names
            with torch.random.fork_rng(devices=[]):
                backbone = own_backbone(replace(card.settings.model, backbone=name), card.image_shape)
        # Built without memory first: a file that claims absurd sizes is refused because its tensors do not fit.
        try:
            with torch.device("meta"):
                model = empty_classifier(card.settings, card.image_shape, len(card.class_names), backbone)
        except (RuntimeError, OverflowError, MemoryError) as error:  # of torch, about sizes that no memory has
            raise CheckpointError(f"{path} describes a model that cannot be built; copy it again.") from error
    fill(model, tensors, path)
    model.card = card
    return model.to(pick_device(device)).eval()


def fill(model: nn.Module, tensors: dict[str, Tensor], path: Path) -> None:
    """Load ``tensors`` into ``model``, float16 as float32; names or shapes that do not fit are an error."""
    wide = {name for name, tensor in model.state_dict().items() if tensor.dtype == torch.float32}
    halves = {name for name, tensor in tensors.items() if tensor.dtype == torch.float16}
    tensors = tensors | {name: tensors[name].float() for name in wide & halves}
    expected = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in model.state_dict().items()}
    found = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}
    wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    if wrong:
        name = wrong[0]
        raise CheckpointError(
            f"{path} does not fit the model: '{name}' is {_show(found.get(name))} in the file and "
            f"{_show(expected.get(name))} in the model ({len(wrong)} such). "
            "Load it with the settings it was trained with."
        )
    assign = any(tensor.is_meta for tensor in model.state_dict().values())
    model.load_state_dict(tensors, assign=assign)


def _show(kind: tuple[tuple[int, ...], torch.dtype] | None) -> str:
    return "missing" if kind is None else f"{kind[1]} of shape {kind[0]}"


def parse_card(path: Path, metadata: dict[str, str]) -> ModelCard:
    """The model card in the metadata of the file at ``path``; anything that is not valid is an error."""
    if metadata.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} is not a checkpoint of this version of maxmahal "
            f"(its format is {metadata.get('format')!r}, expected {FORMAT!r})."
        )
    try:
        with nothing_named():  # a name that cannot be imported does not make a file damaged
            table = parse_json(metadata["model"])
            card = from_table(ModelCard, {**table, "settings": drop_retired(table["settings"])})
        if len(card.image_shape) != 3 or not all(0 < side <= _LARGEST_SIDE for side in card.image_shape):
            raise SettingsError(f"image_shape is {card.image_shape}")
        return card
    except (KeyError, ValueError, TypeError) as error:
        reason = f": {error}" if isinstance(error, SettingsError) else ""
        raise CheckpointError(f"{path} has damaged metadata{reason}. Copy it again or retrain.") from error


def fingerprint_file(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """SHA-256 over names, types, shapes, bytes and metadata, sorted by name, so independent of the file's layout."""
    texts = sorted((key, text) for key, text in metadata.items() if key != FINGERPRINT)
    digest = hashlib.sha256(ascii(texts).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(ascii((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file atomically, with the fingerprint of its content."""
    # safetensors refuses two names for one storage (tied weights), so each gets its own copy.
    dense = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    data = safetensors.torch.save(dense, {**metadata, FINGERPRINT: fingerprint_file(dense, metadata)})
    write_atomically(path, lambda temporary: temporary.write_bytes(data))


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of a safetensors file; its tensors are not read."""
    with _opened(path) as file:
        return dict(file.metadata() or {})


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a safetensors file; a wrong fingerprint is an error."""
    with _opened(path) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = dict(file.metadata() or {})
    if FINGERPRINT in metadata and metadata[FINGERPRINT] != fingerprint_file(tensors, metadata):
        raise CheckpointError(
            f"{path} is damaged: its content does not match its fingerprint; copy it again, or train again."
        )
    return tensors, metadata


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The opened file at ``path``; a file that cannot be read is an error of one sentence."""
    try:
        with opened(path):
            pass  # safetensors waits for the writer of a pipe, and reports every file that it cannot open as missing
        with safetensors.safe_open(str(path), framework="pt") as file:
            yield file
    except FileNotFoundError as error:
        raise CheckpointError(f"There is no checkpoint at {path}.") from error
    except OSError as error:
        raise CheckpointError(f"Cannot read {path}: {error.strerror or error}.") from error
    except safetensors.SafetensorError as error:
        with path.open("rb") as plain:
            start = plain.read(4)
        # As the files of torch.save: a zip archive or (before 2020) a pickle.
        if start == b"PK\x03\x04" or (start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")):
            raise CheckpointError(
                f"{path} was written by torch.save or pickle, and reading it could run any code in it; write "
                "a function that builds the model and loads its weights, and name it: package.module:factory."
            ) from error
        raise CheckpointError(
            f"{path} is not a readable safetensors file ({error}); it may be truncated. Copy it again or retrain."
        ) from error


@dataclass
class RunProgress:
    """The counters of a run."""

    epoch: int = 0
    train_seconds: float = 0.0
    best_epoch: int = 0
    best_score: float = -1.0
    threads: int = 0
    processes: int = 1
    sharing: int = 1
    settings: str = ""

    @property
    def table(self) -> Table:
        """The settings that the run began with."""
        return drop_retired(parse_json(self.settings))


def save_state(
    path: Path,
    model: Classifier,
    optimiser: torch.optim.SGD,
    average: WeightAverage | None,
    perturbations: Perturbations | None,
    progress: RunProgress,
) -> None:
    """Write one file atomically, so that weights, momentum and counters always belong together."""
    tensors = _prefixed("model", model.state_dict()) | _prefixed("momentum", momentum_tensors(model, optimiser))
    if average is not None:
        tensors |= _prefixed("average", average.model.state_dict())
    if perturbations is not None:
        tensors["perturbations"] = perturbations.codes
    tensors["random.cpu"] = torch.get_rng_state()
    device = next(model.parameters()).device
    if device.type == "cuda":
        tensors["random.cuda"] = torch.cuda.get_rng_state(device)
    save_tensors(path, tensors, {"format": STATE_FORMAT, "progress": json.dumps(asdict(progress))})


def load_progress(path: Path) -> RunProgress:
    """The counters in a state file."""
    _, metadata = read_tensors(path)  # the whole file, to check its fingerprint
    if metadata.get("format") != STATE_FORMAT:
        raise CheckpointError(f"{path} is not the state of a run of this version of maxmahal; start a new run folder.")
    try:
        progress = from_table(RunProgress, parse_json(metadata["progress"]))
        epochs = progress.table["train"]["epochs"]
        if not (0 < progress.epoch <= epochs and 0 <= progress.best_epoch <= progress.epoch):
            raise ValueError(f"epoch {progress.epoch} of {epochs}")
    except (KeyError, ValueError, TypeError) as error:
        raise CheckpointError(f"{path} has damaged metadata ({error}); start a new run folder.") from error
    return progress


def load_state(
    path: Path,
    model: Classifier,
    optimiser: torch.optim.SGD,
    average: WeightAverage | None,
    perturbations: Perturbations | None,
) -> None:
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
        if perturbations is not None:
            if (codes := tensors["perturbations"]).shape != perturbations.codes.shape:
                raise RuntimeError("its perturbations have other shapes than the images")
            perturbations.codes.copy_(codes)
        restore_momentum(model, optimiser, momentum)
        torch.set_rng_state(tensors["random.cpu"])
        device = next(model.parameters()).device
        if device.type == "cuda" and "random.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random.cuda"], device)
    except (KeyError, RuntimeError, TypeError) as error:
        raise CheckpointError(
            f"{path} holds a damaged momentum, perturbation or random state; start a new run folder."
        ) from error


def _prefixed(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def _group(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(f"{prefix}."): tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")
    }
