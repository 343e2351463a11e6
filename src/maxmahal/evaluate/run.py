"""Evaluate models under a suite into a folder of records; after a kill at any moment the same call continues."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from maxmahal.data import DataSource, ImageData, load_dataset
from maxmahal.errors import ArgumentError, DataError, SettingsError
from maxmahal.evaluate.environment import as_command, describe_environment
from maxmahal.evaluate.evaluated_model import SHOWN, EvaluatedModel, Target, check_fit, load_target, split_name
from maxmahal.evaluate.evaluation import EvaluationRun, chunk_size
from maxmahal.evaluate.fingerprints import fingerprint_data
from maxmahal.evaluate.locks import ChunkLocks
from maxmahal.evaluate.parsing import option_defaults
from maxmahal.evaluate.predictions import DRAWS, is_stochastic
from maxmahal.evaluate.reporter import EvaluationReporter, SilentReporter
from maxmahal.evaluate.suite import Suite, load_suite
from maxmahal.files import check_folder_name, recorded_path, user_path
from maxmahal.imports import exits_as_errors, only_named
from maxmahal.records.reading import read_numbers
from maxmahal.records.store import Identity, Store
from maxmahal.records.types import Evaluation
from maxmahal.settings import Table


def evaluate_model(
    target: Target,
    *,
    out: str | Path,
    suite: str | Path | Suite = "strict",
    data: DataSource | None = None,
    limit: int | None = None,
    seed: int = 0,
    norm: str | None = None,
    epsilon: str | float | None = None,
    trusted: Sequence[str] = (),
    data_dir: str | Path | None = None,
    device: torch.device | str = "cpu",
    save_images: bool = False,
    reporter: EvaluationReporter | None = None,
    until: float | None = None,
) -> Evaluation:
    """Attack one model as a suite says and record every sample in the folder ``out``; returns the records.

    Their ``verdict`` has the accuracies, such as ``verdict.robust.value``, and one sentence that sums them up.
    ``target`` is a run folder, a checkpoint, a name of the zoo, ``package.module:factory``, an ``nn.Module`` in eval
    mode or a function from images to logits; ``data`` a data set's name, the user's own, or the images a run was tested
    on by default. Code that a checkpoint names (``package.module:function``) runs only if it is in ``trusted``.
    """
    (found,) = evaluate_models(
        [target],
        out=out,
        suite=suite,
        data=data,
        limit=limit,
        seed=seed,
        norm=norm,
        epsilon=epsilon,
        trusted=trusted,
        data_dir=data_dir,
        device=device,
        save_images=save_images,
        reporter=reporter,
        until=until,
    )
    return found


def evaluate_models(
    targets: Sequence[Target] | Mapping[str, Target],
    *,
    out: str | Path,
    suite: str | Path | Suite = "strict",
    data: DataSource | None = None,
    limit: int | None = None,
    seed: int = 0,
    norm: str | None = None,
    epsilon: str | float | None = None,
    transfer: bool = False,
    trusted: Sequence[str] = (),
    data_dir: str | Path | None = None,
    device: torch.device | str = "cpu",
    save_images: bool = False,
    reporter: EvaluationReporter | None = None,
    until: float | None = None,
) -> list[Evaluation]:
    """Several models under one suite on the same images; with ``transfer``, images crafted on each attack every other.

    ``until`` is a time of ``time.monotonic()``: work that would not be done by then is left for the next call, and the
    returned evaluations are then not ``finished``.
    """
    chosen = _suite(suite, norm, epsilon)
    if not 0 <= seed < 2**63:
        raise SettingsError(f"--seed must lie in 0..2^63 - 1; got {seed}.")
    asked = list(targets.values() if isinstance(targets, Mapping) else targets)
    with exits_as_errors(), only_named(asked, data, chosen.to_table(), trusted):
        models = _load_models(targets, trusted, device)
        images = _data(data, models, data_dir)
        some = _some(images, limit, chosen)
        for model in models.values():
            check_fit(model, some)
        command = as_command(
            [f"{name}={recorded_path(model.target)}" for name, model in models.items()],
            chosen.name if isinstance(suite, Suite) else recorded_path(str(suite)),
            recorded_path(data) if isinstance(data, str) else images.name,
            {
                "trust": list(trusted),
                "limit": limit,
                "seed": seed,
                "norm": norm,
                "epsilon": epsilon,
                "transfer": transfer,
                "save-images": save_images,
            },
            recorded_path(str(out)),
        )
        common = (images.name, chosen.name, seed, len(some), chosen.norm, chosen.threat_of(None).radius)
        bodies = {
            Identity(name, *common): _describe(model, chosen, some, command, sorted(models) if transfer else [])
            for name, model in models.items()
        }
        reporter = SilentReporter() if reporter is None else reporter
        return _run(user_path(out), models, bodies, chosen, some, transfer, save_images, reporter, until)


def _run(
    folder: Path,
    models: Mapping[str, EvaluatedModel],
    bodies: Mapping[Identity, Table],
    suite: Suite,
    data: ImageData,
    transfer: bool,
    save_images: bool,
    reporter: EvaluationReporter,
    until: float | None,
) -> list[Evaluation]:
    store, locks = Store(folder, option_defaults), ChunkLocks(folder)
    try:
        for identity, body in bodies.items():
            store.check(identity, body)  # all of them first: either every evaluation begins, or none
        numbers = {identity: store.begin(identity, body) for identity, body in bodies.items()}
        for identity, body in bodies.items():
            EvaluationRun(
                store,
                locks,
                numbers[identity],
                models[identity.name],
                suite,
                data,
                seed=identity.seed,
                stochastic=body["model"]["stochastic"],
                others=models,
                transfer=transfer,
                images_folder=folder / "images" if save_images else None,
                reporter=reporter,
                until=until,
            ).run()
    finally:
        locks.close()
        store.close()
    return read_numbers(folder, list(numbers.values()))


def _suite(suite: str | Path | Suite, norm: str | None, epsilon: str | float | None) -> Suite:
    if isinstance(suite, Suite):
        if norm is not None or epsilon is not None:
            raise ArgumentError("norm and epsilon belong to a suite given by its name; this one has its own.")
        return suite
    return load_suite(suite, norm=norm, epsilon=None if epsilon is None else str(epsilon))


def _load_models(
    targets: Sequence[Target] | Mapping[str, Target], trusted: Sequence[str], device: torch.device | str
) -> dict[str, EvaluatedModel]:
    named = list(targets.items()) if isinstance(targets, Mapping) else [_named(target) for target in targets]
    if not named:
        raise ArgumentError("Name at least one model to evaluate.")
    models: dict[str, EvaluatedModel] = {}
    for name, target in named:
        model = load_target(target, name=name, trusted=trusted, device=device)
        if model.name in models:
            raise SettingsError(f"Two models are called '{model.name}'; name one of them with NAME=TARGET.")
        check_folder_name(model.name, "model")
        models[model.name] = model
    return models


def _named(target: Target) -> tuple[str, Target]:
    if isinstance(target, str) and not Path(target).exists():
        return split_name(target)
    return "", target


def _data(data: DataSource | None, models: Mapping[str, EvaluatedModel], data_dir: str | Path | None) -> ImageData:
    if isinstance(data, ImageData):
        return data
    if data is None:
        trained_on = {model.card.settings.data.source for model in models.values() if model.card is not None}
        if len(trained_on) != 1:
            raise SettingsError("Say which images to attack with --data; these models do not tell.")
        (data,) = trained_on
    return load_dataset(data, "test", data_dir)


def _some(images: ImageData, limit: int | None, suite: Suite) -> ImageData:
    if not len(images):
        raise DataError(f"{images.name} holds no images to attack; choose other --data.")
    if limit is not None and limit < 1:
        raise SettingsError(f"--limit must be at least 1; got {limit}.")
    some = images.first(suite.samples if limit is None else limit)
    ids, counts = torch.unique(some.sample_ids, return_counts=True)
    if len(ids) < len(some):
        raise DataError(
            f"{images.name}: {int(counts.max())} images have the sample id {int(ids[counts.argmax()])}; number the "
            "samples without repetition, because records tell them apart by their ids."
        )
    return some


def _describe(model: EvaluatedModel, suite: Suite, data: ImageData, command: str, sources: list[str]) -> Table:
    """The description of an evaluation in the records; ``same`` must not change when it is continued."""
    stochastic = is_stochastic(model.model, data.first(SHOWN).to(model.device).float_images())
    return {
        "same": {
            "model": model.fingerprint,
            "data": fingerprint_data(data),
            "suite": suite.to_table(),
            "transfer": sources,
        },
        "target": recorded_path(model.target),
        "comparison": suite.comparison,
        "chunk": chunk_size(model.device, suite),
        "radius": suite.threat_of(None).radius,
        "class_names": list(data.class_names),
        "model": {**model.about(), "stochastic": stochastic, "draws": DRAWS if stochastic else 1},
        "environment": describe_environment(model.device, command),
        "training": model.training,
    }
