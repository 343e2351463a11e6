"""Checkpoints: weights as safetensors with the settings in the metadata. Loading one never executes code from it."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from maxmahal.errors import CheckpointError, SettingsError
from maxmahal.files import write_atomically
from maxmahal.imports import names_a_function, nothing_named, only_named
from maxmahal.models import Classifier
from maxmahal.settings import from_table, to_table
from maxmahal.train.build import empty_classifier, own_backbone
from maxmahal.train.config import Settings
from maxmahal.train.tensors import FINGERPRINT, read_metadata, read_tensors, save_tensors
from maxmahal.version import __version__

FORMAT = "maxmahal-checkpoint-1"


@dataclass(frozen=True)
class ModelCard:
    """What must be known to rebuild a model around its weights."""

    settings: Settings
    image_shape: tuple[int, int, int]
    class_names: tuple[str, ...]
    epoch: int

    def to_json(self) -> str:
        """As it stands in a checkpoint's metadata."""
        return json.dumps(
            {
                "settings": to_table(self.settings),
                "image_shape": self.image_shape,
                "class_names": self.class_names,
                "epoch": self.epoch,
            }
        )


def save_model(path: Path, model: Classifier, card: ModelCard) -> None:
    """Weights and everything needed to rebuild the model around them."""
    metadata = {"format": FORMAT, "version": __version__, "model": card.to_json()}
    save_tensors(path, model.state_dict(), metadata)


def load_card(path: Path) -> ModelCard:
    """What a checkpoint says about itself; its weights are not looked at."""
    return _card(path, read_metadata(path))


def copy_checkpoint(source: Path, target: Path) -> None:
    """Copy a file that bears a fingerprint byte for byte; one of an earlier version gets the fingerprint it lacks.

    A target that is such a copy already is left alone: its metadata would only come in another order.
    """
    tensors, metadata = read_tensors(source)
    if FINGERPRINT in metadata:
        write_atomically(target, partial(shutil.copyfile, source))
    elif not (target.exists() and _is_copy(target, tensors, metadata)):
        save_tensors(target, tensors, metadata)


def load_model(
    path: str | Path,
    *,
    backbone: nn.Module | None = None,
    trusted: Sequence[str] = (),
    device: torch.device | str = "cpu",
) -> Classifier:
    """The model saved at ``path`` (a checkpoint, or a run folder: its last one), in evaluation mode.

    A run whose network came from the user's own ``module:factory`` needs that network as ``backbone``, or the name of
    the factory in ``trusted``: a file may not choose what code to import.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "last.safetensors"
    tensors, metadata = read_tensors(path)
    with only_named(trusted):
        card = _card(path, metadata)
        if backbone is None and names_a_function(card.settings.model.backbone):
            backbone = _trusted_backbone(card, trusted)
        # Built without memory first: a file that claims absurd sizes is refused by the shapes of its own tensors.
        with torch.device("meta"):
            model = empty_classifier(card.settings, card.image_shape, len(card.class_names), backbone)
    fill(model, tensors, path)
    return model.to(device).eval()


def _is_copy(target: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> bool:
    try:
        theirs, said = read_tensors(target)
    except CheckpointError:  # a damaged one is written anew
        return False
    same_words = {key: text for key, text in said.items() if key != FINGERPRINT} == metadata
    return same_words and theirs.keys() == tensors.keys() and all(theirs[k].equal(each) for k, each in tensors.items())


def _trusted_backbone(card: ModelCard, trusted: Sequence[str]) -> nn.Module:
    """The network that a checkpoint's weights belong in, by the function it names or by the only one that is given."""
    name = card.settings.model.backbone
    networks = [each for each in trusted if each != card.settings.loss.name]
    if name not in trusted and len(networks) == 1:
        name = networks[0]
    with torch.random.fork_rng(devices=[]):
        return own_backbone(replace(card.settings.model, backbone=name), card.image_shape)


def fill(model: nn.Module, tensors: dict[str, Tensor], path: Path) -> None:
    """Load ``tensors`` into ``model``, refusing names or shapes that do not fit."""
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


def _card(path: Path, metadata: dict[str, str]) -> ModelCard:
    if metadata.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} is not a checkpoint of this version of maxmahal "
            f"(its format is {metadata.get('format')!r}, expected {FORMAT!r})."
        )
    try:
        card: dict[str, Any] = json.loads(metadata["model"])
        channels, height, width = (int(side) for side in card["image_shape"])
        if min(channels, height, width) < 1:
            raise ValueError("image_shape")
        with nothing_named():  # a name that cannot be imported does not make a file damaged
            settings = from_table(Settings, card["settings"])
        return ModelCard(settings, (channels, height, width), tuple(card["class_names"]), card["epoch"])
    except (KeyError, ValueError, TypeError) as error:
        reason = f": {error}" if isinstance(error, SettingsError) else ""
        raise CheckpointError(f"{path} has damaged metadata{reason}. Copy it again or retrain.") from error
