"""From run folders to a record: every model on the same images, against the same strangers and the same attacker."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from maxmahal.attacks import parse_epsilon
from maxmahal.data import load_dataset
from maxmahal.errors import SettingsError
from maxmahal.evaluate.target import EvaluatedModel, load_target, split_name
from maxmahal.imports import only_named
from maxmahal.uncertainty.record import ModelResult, Record
from maxmahal.uncertainty.strangers import strange_images
from maxmahal.uncertainty.study import Attacker, study_model

DEFAULT_STRANGERS = ("scrambled", "turned")  # changes of the test images themselves, which need no other data


def study_models(
    targets: Sequence[str],
    *,
    strangers: Sequence[str] = (),
    epsilon: str = "8/255",
    data: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    trusted: Sequence[str] = (),
    data_dir: str | Path | None = None,
    device: torch.device | str = "cpu",
    told: Callable[[ModelResult], None] = lambda _: None,
) -> Record:
    """Run folders, checkpoints or ``zoo:NAME``, on the test part of their own data unless ``data`` names another.

    Code that a checkpoint names (``package.module:function``) runs only if it is in ``trusted``.
    """
    parse_epsilon(epsilon)
    if limit is not None and limit < 1:
        raise SettingsError(f"--limit must be at least 1; got {limit}.")
    chosen = tuple(dict.fromkeys(strangers)) or DEFAULT_STRANGERS
    with only_named([*targets], data, chosen, trusted):
        named = map(split_name, targets)
        subjects = [load_target(target, name=name, trusted=trusted, device=device) for name, target in named]
        names = [subject.name for subject in subjects]
        for name in names:
            if names.count(name) > 1:
                raise SettingsError(f"Two models are called '{name}'; tell them apart with NAME=TARGET.")
        images = load_dataset(_source(subjects, data), "test", data_dir).first(limit).to(device)
        given = {Path(name).stem: strange_images(name, images, data_dir) for name in chosen}
    attacker = Attacker(epsilon, seed)
    models = []
    for subject in subjects:
        models.append(study_model(subject, images, given, attacker))
        told(models[-1])
    return Record(epsilon, seed, attacker.steps, tuple(given), tuple(models))


def _source(subjects: Sequence[EvaluatedModel], data: str | None) -> str:
    if data is not None:
        return data
    sources = {"" if subject.card is None else subject.card.settings.data.source for subject in subjects}
    if len(sources) != 1 or "" in sources:
        raise SettingsError("The models do not say one data set that all were trained on; name it with --data.")
    return sources.pop()
