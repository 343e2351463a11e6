"""Evaluate models under a suite, into a folder of records; killed at any moment, the same call goes on."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from maxmahal.data import DataSource, ImageData, load_dataset
from maxmahal.errors import ArgumentError, DataError, SettingsError
from maxmahal.evaluate.claims import Claims
from maxmahal.evaluate.environment import as_command, describe_environment
from maxmahal.evaluate.fingerprints import fingerprint_data
from maxmahal.evaluate.judging import draws_lots
from maxmahal.evaluate.parsing import option_defaults
from maxmahal.evaluate.plan import DRAWS
from maxmahal.evaluate.reporter import EvaluationReporter, SilentReporter
from maxmahal.evaluate.session import LOOKED_AT, Session, chunk_on
from maxmahal.evaluate.subject import Subject, Target, check_fit, load_subject, split_name
from maxmahal.evaluate.suite import Suite, load_suite
from maxmahal.files import check_folder_name
from maxmahal.imports import only_named
from maxmahal.records.reading import read_evaluations
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
    """Several models under one suite on the same images; with ``transfer`` each is crafted on for every other.

    ``until`` is a moment of ``time.monotonic()``: what would not be done by then is left for the next call, and the
    evaluations that are returned say that they are not ``finished``.
    """
    chosen = _suite(suite, norm, epsilon)
    if not 0 <= seed < 2**63:
        raise SettingsError(f"--seed must lie in 0..2^63 - 1; got {seed}.")
    asked = list(targets.values() if isinstance(targets, Mapping) else targets)
    with only_named(asked, data, chosen.to_table(), trusted):
        subjects = _subjects(targets, trusted, device)
        images = _data(data, subjects, data_dir)
        some = _some(images, limit, chosen)
        for subject in subjects.values():
            check_fit(subject, some)
        folder = Path(out).expanduser()
        command = as_command(
            [f"{name}={subject.target}" for name, subject in subjects.items()],
            chosen.name if isinstance(suite, Suite) else str(suite),
            data if isinstance(data, str) else images.name,
            {
                "trust": list(trusted),
                "limit": limit,
                "seed": seed,
                "norm": norm,
                "epsilon": epsilon,
                "transfer": transfer,
                "save-images": save_images,
            },
            str(out),
        )
        watcher = SilentReporter() if reporter is None else reporter
        common = (images.name, chosen.name, seed, len(some), chosen.norm, chosen.threat_of(None).radius)
        store, numbers = Store(folder, option_defaults), {}
        claims = Claims(folder)
        try:
            bodies = {
                Identity(name, *common): _facts(subject, chosen, some, command, sorted(subjects) if transfer else [])
                for name, subject in subjects.items()
            }
            for identity, body in bodies.items():
                store.check(identity, body)  # all of them first: either every evaluation begins, or none
            for identity, body in bodies.items():
                numbers[identity.name] = store.begin(identity, body)
            for name, subject in subjects.items():
                session = Session(
                    store,
                    claims,
                    numbers[name],
                    subject,
                    chosen,
                    some,
                    seed=seed,
                    others=subjects,
                    crafted=transfer,
                    images_folder=folder / "images" if save_images else None,
                    reporter=watcher,
                    until=until,
                )
                session.finish()
        finally:
            claims.close()
            store.close()
    everything = {
        Identity(each.name, each.data, each.suite, each.seed, each.samples, each.norm, each.radius): each
        for each in read_evaluations(folder)
    }
    return [everything[Identity(name, *common)] for name in subjects]


def _suite(suite: str | Path | Suite, norm: str | None, epsilon: str | float | None) -> Suite:
    if isinstance(suite, Suite):
        if norm is not None or epsilon is not None:
            raise ArgumentError("norm and epsilon belong to a suite given by its name; this one has its own.")
        return suite
    return load_suite(suite, norm=norm, epsilon=None if epsilon is None else str(epsilon))


def _subjects(
    targets: Sequence[Target] | Mapping[str, Target], trusted: Sequence[str], device: torch.device | str
) -> dict[str, Subject]:
    named = list(targets.items()) if isinstance(targets, Mapping) else [_named(target) for target in targets]
    if not named:
        raise ArgumentError("Name at least one model to evaluate.")
    subjects: dict[str, Subject] = {}
    for name, target in named:
        subject = load_subject(target, name=name, trusted=trusted, device=device)
        if subject.name in subjects:
            raise SettingsError(f"Two models are called '{subject.name}'; name one of them with NAME=TARGET.")
        check_folder_name(subject.name, "model")
        subjects[subject.name] = subject
    return subjects


def _named(target: Target) -> tuple[str, Target]:
    if isinstance(target, str) and not Path(target).exists():
        return split_name(target)
    return "", target


def _data(data: DataSource | None, subjects: Mapping[str, Subject], data_dir: str | Path | None) -> ImageData:
    if isinstance(data, ImageData):
        return data
    if data is None:
        trained_on = {subject.card.settings.data.source for subject in subjects.values() if subject.card is not None}
        if len(trained_on) != 1:
            raise SettingsError("Say which images to attack with --data; nothing tells it for these models.")
        (data,) = trained_on
    return load_dataset(data, "test", data_dir)


def _some(images: ImageData, limit: int | None, suite: Suite) -> ImageData:
    if not len(images):
        raise DataError(f"{images.name} holds no images to attack; choose other --data.")
    return images.first(_limit(limit, suite))


def _limit(limit: int | None, suite: Suite) -> int | None:
    if limit is not None and limit < 1:
        raise SettingsError(f"--limit must be at least 1; got {limit}.")
    return suite.samples if limit is None else limit


def _facts(subject: Subject, suite: Suite, data: ImageData, command: str, crafted_on: list[str]) -> Table:
    """What the records say about the evaluation as a whole; ``same`` is what must not change when it goes on."""
    stochastic = draws_lots(subject.model, data.first(LOOKED_AT).to(subject.device).float_images())
    return {
        "same": {
            "model": subject.fingerprint,
            "data": fingerprint_data(data),
            "suite": suite.to_table(),
            "transfer": crafted_on,
        },
        "target": subject.target,
        "comparison": suite.comparison,
        "chunk": chunk_on(subject.device, suite),
        "radius": suite.threat_of(None).radius,
        "class_names": list(data.class_names),
        "model": {**subject.about(), "stochastic": stochastic, "draws": DRAWS if stochastic else 1},
        "environment": describe_environment(subject.device, command),
        "training": subject.training,
    }
