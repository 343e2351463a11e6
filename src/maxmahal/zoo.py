"""Trained models by name: those that are shipped with the package, and the user's own zoo."""

import os
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from maxmahal.errors import CheckpointError, did_you_mean
from maxmahal.files import user_path
from maxmahal.models import Classifier
from maxmahal.train import load_model

PREFIX = "zoo:"
VARIABLE = "MAXMAHAL_ZOO"
_PACKAGE = Path(__file__).resolve().parent
_SUFFIX = ".safetensors"
NOT_INSTALLED = (
    "cifar10-at-mmc-released",
    "cifar10-at-mmc-tuned",
    "cifar10-at-sce-tuned",
    "cifar10-at-tar-mmc",
    "cifar10-at-tar-sce",
    "cifar10-center",
    "cifar10-lgm",
    "cifar10-mmc-rand",
    "cifar10-mmlda",
    "cifar100-at-hm",
    "cifar100-at-mmc",
    "cifar100-at-sce",
    "cifar100-hm",
    "cifar100-mmc",
    "cifar100-sce",
)
"""Models in the folder zoo/ of the repository that the installed package leaves out, because of their size."""


def zoo_folders() -> list[Path]:
    """The folders with models, in this order: ``$MAXMAHAL_ZOO``, the package, a source checkout."""
    folders = [_PACKAGE / "zoo_files"]
    if _PACKAGE.parent.name == "src":
        folders.append(_PACKAGE.parent.parent / "zoo")
    folders = [folder for folder in folders if folder.is_dir()]
    if named := os.environ.get(VARIABLE):
        own = user_path(named)
        if not own.is_dir():
            raise CheckpointError(f"${VARIABLE} names {own}, which is not a folder; correct the variable or unset it.")
        folders.insert(0, own)
    return list(dict.fromkeys(folders))


def zoo_models() -> dict[str, Path]:
    """Every model's checkpoint by its name, sorted; if two have the same name, the first folder wins."""
    found: dict[str, Path] = {}
    for folder in zoo_folders():
        for path in folder.glob(f"*{_SUFFIX}"):
            found.setdefault(path.name.removesuffix(_SUFFIX), path)
    return dict(sorted(found.items()))


def zoo_checkpoint(name: str) -> Path:
    """The checkpoint of the model of that name, with or without the prefix ``zoo:``."""
    name, models = name.removeprefix(PREFIX), zoo_models()
    if name in models:
        return models[name]
    if name in NOT_INSTALLED:
        raise CheckpointError(
            f"The model '{name}' is not part of the installed package; copy zoo/{name}{_SUFFIX} from the source "
            f"repository into a folder, and set ${VARIABLE} to that folder."
        )
    if not models:
        raise CheckpointError(
            f"There is no model '{name}', because this installation has no models; "
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

    A path that exists wins over a name. A network of the user's own ``module:factory`` is needed as ``backbone``, or
    its name in ``trusted``.
    """
    path = user_path(target)
    if not path.exists() and names_a_model(target):
        path = zoo_checkpoint(str(target))
    return load_model(path, backbone=backbone, trusted=trusted, device=device)


def names_a_model(target: str | Path) -> bool:
    """Whether a text is a name and not a path: one word without a folder or a file extension."""
    text = str(target)
    return isinstance(target, str) and bool(text) and not text.endswith(_SUFFIX) and not set("/\\~") & set(text)
