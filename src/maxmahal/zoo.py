"""Trained models by their names: those that come with the package, and a zoo of the user's own."""

import os
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from maxmahal.errors import CheckpointError, did_you_mean
from maxmahal.models import Classifier
from maxmahal.train import load_model

PREFIX = "zoo:"
VARIABLE = "MAXMAHAL_ZOO"
_PACKAGE = Path(__file__).resolve().parent
_SUFFIX = ".safetensors"


def zoo_folders() -> list[Path]:
    """Where models are looked for, in this order: in ``$MAXMAHAL_ZOO``, in the package, in a source checkout."""
    shipped = [_PACKAGE / "zoo_files"]
    if _PACKAGE.parent.name == "src":
        shipped.append(_PACKAGE.parent.parent / "zoo")
    return list(dict.fromkeys([*_own_folder(), *(folder for folder in shipped if folder.is_dir())]))


def _own_folder() -> list[Path]:
    """The user's own zoo, if one is named: a folder that is not there must not turn into the shipped models."""
    named = os.environ.get(VARIABLE)
    if not named:
        return []
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise CheckpointError(f"${VARIABLE} names {folder}, which is not a folder; correct the variable or unset it.")
    return [folder]


def zoo_models() -> dict[str, Path]:
    """Every model's checkpoint by its name, sorted; of two with one name the first folder's counts."""
    found: dict[str, Path] = {}
    for folder in zoo_folders():
        for path in folder.glob(f"*{_SUFFIX}"):
            found.setdefault(path.name.removesuffix(_SUFFIX), path)
    return dict(sorted(found.items()))


def zoo_checkpoint(name: str) -> Path:
    """The checkpoint of the model of that name, with or without ``zoo:`` in front."""
    name, models = name.removeprefix(PREFIX), zoo_models()
    if name in models:
        return models[name]
    if not models:
        raise CheckpointError(
            f"There is no model '{name}', for the zoo of this installation is empty; "
            f"give a path, or name a folder of checkpoints in ${VARIABLE}."
        )
    raise CheckpointError(f"There is no model '{name}' in the zoo; {did_you_mean(name, models)}")


def load(
    target: str | Path,
    *,
    backbone: nn.Module | None = None,
    trusted: Sequence[str] = (),
    device: torch.device | str = "cpu",
) -> Classifier:
    """A trained model in evaluation mode: a run folder, a checkpoint, or a name of the zoo (``maxmahal zoo``).

    A path that exists wins over a name. A run whose network came from the user's own ``module:factory`` needs that
    network as ``backbone``, or the factory's name in ``trusted``.
    """
    path = Path(target).expanduser()
    if not path.exists() and names_a_model(target):
        path = zoo_checkpoint(str(target))
    return load_model(path, backbone=backbone, trusted=trusted, device=device)


def names_a_model(target: str | Path) -> bool:
    """Whether a text reads as a name rather than as a path: one word without a folder or a file's ending."""
    text = str(target)
    return isinstance(target, str) and bool(text) and not text.endswith(_SUFFIX) and not set("/\\~") & set(text)
