"""Evaluate models under a suite into a folder of records; after a kill at any moment the same call continues."""

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from maxmahal.attacks import L2, Linf
from maxmahal.attacks.checks import PROBABILITIES
from maxmahal.data import DataSource, ImageData
from maxmahal.errors import ArgumentError, SettingsError, warn_caller
from maxmahal.evaluate.diagnose.probe import pull_back
from maxmahal.evaluate.evaluated_model import DRAWS, SHOWN, EvaluatedModel, Target, is_stochastic, loaded, notes_on
from maxmahal.evaluate.evaluation import EvaluationRun, PlannedEvaluation, chunk_size
from maxmahal.evaluate.fingerprints import as_command, describe_environment, fingerprint_data
from maxmahal.evaluate.reporter import EvaluationReporter, SilentReporter
from maxmahal.evaluate.suite import Suite, load_suite, option_defaults
from maxmahal.files import recorded_path, user_path
from maxmahal.imports import integration
from maxmahal.random import own_stream
from maxmahal.records.reading import read_evaluations, read_folder
from maxmahal.records.schema import FILE
from maxmahal.records.shards import FileStore, Shard
from maxmahal.records.store import Store
from maxmahal.records.types import Evaluation, Identity
from maxmahal.settings import Table


def evaluate_model(
    target: Target,
    data: DataSource | None = None,
    *,
    out: str | Path | None = None,
    suite: str | Path | Suite = "strict",
    limit: int | None = None,
    seed: int = 0,
    norm: str | None = None,
    epsilon: str | float | None = None,
    trusted: Sequence[str] = (),
    data_dir: str | Path | None = None,
    device: torch.device | str = "auto",
    save_images: bool = False,
    reporter: EvaluationReporter | None = None,
    until: float | None = None,
    shard: str | None = None,
) -> Evaluation:
    """Attack one model as a suite says and record every sample in the folder ``out``; returns the records.

    Their ``verdict`` has the accuracies, such as ``verdict.robust.value``, and one sentence that sums them up.
    ``target`` is a run folder, a checkpoint, a name of the zoo, ``package.module:factory``, an ``nn.Module`` in eval
    mode or a function from images to logits, which is attacked without gradients. ``data`` is a data set's name, a
    ``DataLoader``, a ``Dataset``, a pair (images, labels) or a path; by default the images a run was tested on.
    ``epsilon`` is by default the suite's, else the data set's. Without ``out`` the records are returned and not kept;
    with it, the same call resumes.

    A model that is given as itself stays on its device; ``device`` is where others are loaded: ``auto`` is the GPU if
    there is one. Code that a checkpoint names (``package.module:function``) runs only if it is in ``trusted``.
    """
    (found,) = evaluate_models(
        [target],
        data,
        out=out,
        suite=suite,
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
        shard=shard,
    )
    return found


def evaluate_models(
    targets: Sequence[Target] | Mapping[str, Target],
    data: DataSource | None = None,
    *,
    out: str | Path | None = None,
    suite: str | Path | Suite = "strict",
    limit: int | None = None,
    seed: int = 0,
    norm: str | None = None,
    epsilon: str | float | None = None,
    transfer: bool = False,
    trusted: Sequence[str] = (),
    data_dir: str | Path | None = None,
    device: torch.device | str = "auto",
    save_images: bool = False,
    reporter: EvaluationReporter | None = None,
    until: float | None = None,
    dry_run: bool = False,
    shard: str | None = None,
    on: str | None = None,
) -> list[Evaluation]:
    """Several models under one suite on the same images; with ``transfer``, images crafted on each attack every other.

    ``until`` is a time of ``time.monotonic()``: work that would not be done by then is left for the next call, and the
    evaluations are then not ``finished``. With ``dry_run`` the reporter only notes the stages and their planned times.

    ``shard`` is such as "2/8": this process computes the second of eight shares and records it in a file of its own,
    and ``merge_records(out)`` collects them; or "auto", which reads the variables of a Slurm array or of torchrun.
    With ``on="ray"`` the workers of a Ray cluster compute the chunks, and this process records them.
    """
    part, given = None if shard is None else Shard.parse(shard), _suite(suite, norm, epsilon)
    _check_arguments(out, seed, save_images=save_images, until=until, shard=shard, on=on)
    where: dict[str, Any] = {"trusted": trusted, "data_dir": data_dir, "device": "cpu" if on else device}
    with (
        integration("ray").open_workers(device) if on else nullcontext() as workers,
        loaded(targets, data, given, limit, **where) as (models, some, chosen),
        TemporaryDirectory(prefix="maxmahal-") if out is None else nullcontext(out) as place,
    ):
        folder = user_path(place)
        radius = chosen.epsilon if given.assumed and not chosen.assumed else epsilon
        asked: Table = {"trust": list(trusted), "limit": limit, "seed": seed, "norm": norm, "epsilon": radius}
        asked |= {"transfer": transfer, "save-images": save_images, "out": None if out is None else str(out)}
        command = _command(models, suite, data if isinstance(data, str) else some.name, asked)
        hurried = until is not None and part is None and not on  # all shards have chunks of one size
        describe = partial(_describe, suite=chosen, data=some, command=command, sources=sorted(models) * transfer)
        common = (some.name, chosen.name, seed, len(some), chosen.norm, chosen.threat_of(None).radius)
        size = partial(chunk_size, suite=chosen, image_shape=some.image_shape, hurried=hurried)
        sized = {name: describe(each, block=size((workers or each).device)) for name, each in models.items()}
        bodies = {Identity(name, *common): body for name, body in sized.items()}
        _warn_about_functions(models, some)
        listener = reporter or SilentReporter()
        shared: Table = {"suite": chosen, "data": some, "others": models, "transfer": transfer, "seed": seed}
        shared |= {"images_folder": folder / "images" if save_images else None}
        if dry_run:
            count = workers.room if workers is not None else part.count if part else 1
            return _estimate(folder, bodies, partial(PlannedEvaluation, **shared), listener, count)
        source = data if data is None or isinstance(data, str | Path) else some
        held = {"targets": targets, "data": source, "suite": given, "limit": limit, **where}
        kind = EvaluationRun if workers is None else workers.hold(held, models, some)
        return _run(folder, bodies, partial(kind, **shared, reporter=listener, until=until, shard=part), part)


def _check_arguments(
    out: str | Path | None, seed: int, *, save_images: bool, until: float | None, shard: str | None, on: str | None
) -> None:
    if on not in (None, "ray"):
        raise SettingsError(f"--on {on} is unknown; write --on ray, or leave it out.")
    if on is not None and shard is not None:
        raise SettingsError("--on ray divides the work itself; leave out --shard.")
    if on is not None and save_images:
        raise SettingsError("--save-images writes on the machine that attacks; leave out --on ray.")
    if out is None and (save_images or until is not None or shard is not None):
        kept = "save_images" if save_images else "until" if shard is None else "shard"
        raise ArgumentError(f"{kept} needs a folder that keeps what is done; name one with out.")
    if not 0 <= seed < 2**63:
        raise SettingsError(f"seed must lie in 0..2^63 - 1; got {seed}.")


def _estimate(
    folder: Path,
    bodies: Mapping[Identity, Table],
    plan: Callable[..., PlannedEvaluation],
    reporter: EvaluationReporter,
    workers: int,
) -> list[Evaluation]:
    """Note the stages of each evaluation and their planned times; nothing is recorded."""
    known = read_evaluations(folder) if (folder / FILE).exists() else []
    for identity, body in bodies.items():
        stages = [stage for each in known if each.identity == identity for stage in each.stages if not stage.skipped]
        recorded = [stage.name for stage in stages if stage.finished]
        planned = plan(name=identity.name, stochastic=body["model"]["stochastic"])
        for line in planned.estimate(recorded, body["block"], workers):
            reporter.note(line)
    return []


def _run(
    folder: Path, bodies: Mapping[Identity, Table], begin: Callable[..., EvaluationRun], shard: Shard | None
) -> list[Evaluation]:
    path = folder if shard is None else folder / shard.file
    with closing(Store(folder, option_defaults) if shard is None else FileStore(path, option_defaults)) as store:
        for identity, body in bodies.items():
            store.check(identity, body)  # all of them first: either every evaluation begins, or none
        numbers = {identity: store.begin(identity, body) for identity, body in bodies.items()}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", re.escape(PROBABILITIES))  # the verdict says so, once
            for identity, body in bodies.items():
                known = {"name": identity.name, "stochastic": body["model"]["stochastic"], "identity": identity}
                begin(store=store, number=numbers[identity], **known).run()
    return read_folder(path, list(numbers.values()))


def _warn_about_functions(models: Mapping[str, EvaluatedModel], data: ImageData) -> None:
    """Functions are attacked without gradients, which makes one that has them look more robust than it is."""
    for each in models.values():
        if isinstance(each.model, nn.Module):
            continue
        image, gradient = data.first(1).to(each.device).float_images(), None
        # A function may raise anything on an image that requires a gradient: then it has none to offer.
        with own_stream(image.device, 0), suppress(Exception):
            gradient = pull_back(each.model, image)
        if gradient is not None:
            warn_caller(
                f"{each.name} is a function, so it is attacked without gradients, though it has them; pass the "
                "nn.Module itself, or wrap the function in one."
            )


def _suite(suite: str | Path | Suite, norm: str | None, epsilon: str | float | None) -> Suite:
    if isinstance(suite, Suite):
        if norm is not None or epsilon is not None:
            raise ArgumentError("norm and epsilon belong to a suite given by its name; this one has its own.")
        return suite
    if isinstance(epsilon, Linf | L2):
        raise ArgumentError(
            f"epsilon must be a number or text; got {epsilon!r}. Write norm='{type(epsilon).__name__}', "
            f"epsilon={epsilon.epsilon!r} instead."
        )
    return load_suite(suite, norm=norm, epsilon=None if epsilon is None else str(epsilon))


def _command(models: Mapping[str, EvaluatedModel], suite: str | Path | Suite, data: str, options: Table) -> str:
    named = suite.name if isinstance(suite, Suite) else recorded_path(str(suite))
    out = {"out": None if options["out"] is None else recorded_path(options["out"])}
    targets = [f"{name}={recorded_path(model.target)}" for name, model in models.items()]
    return as_command(targets, named, recorded_path(data), options | out)


def _describe(
    model: EvaluatedModel, suite: Suite, data: ImageData, command: str, sources: list[str], block: int
) -> Table:
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
        "notes": notes_on(model, suite, data),
        "block": block,
        "radius": suite.threat_of(None).radius,
        "class_names": list(data.class_names),
        "model": {**model.about(), "stochastic": stochastic, "draws": DRAWS if stochastic else 1},
        "environment": describe_environment(model.device, command),
        "training": model.training,
    }
