"""What a stage is asked to attack, the call of its attack, and what comes back."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor

from maxmahal.attacks import L2, Attacked, Engine, Linf, Model, Nearest, Objective, Passes, Spent
from maxmahal.attacks.objectives import find_objective
from maxmahal.attacks.oracle import judge
from maxmahal.attacks.registry import ATTACKS, Attack, find_attack
from maxmahal.errors import ArgumentError
from maxmahal.evaluate.subject import Subject
from maxmahal.imports import call_function
from maxmahal.settings import Component


@dataclass(frozen=True)
class Asked:
    """A chunk of samples and everything a stage knows about them."""

    subject: Subject
    model: Model
    """What to search on: prepared, or with gradients passed through its dead steps."""
    images: Float[Tensor, "n c h w"]
    labels: Int[Tensor, " n"]
    sample_ids: Int[Tensor, " n"]
    threat: Linf | L2
    seed: int
    engine: Engine
    others: Mapping[str, Subject]
    """Every model of the same evaluation, to craft on."""


@dataclass(frozen=True)
class Found:
    """One image per sample, and what the model itself says about it."""

    images: Float[Tensor, "n c h w"]
    predictions: Int[Tensor, " n"]
    distances: Float[Tensor, " n"] | None
    """In the attack's norm; None if a distance says nothing."""
    spent: Spent | None
    passes: Passes
    broken: Bool[Tensor, " n"] | None = None
    """If success is more than a wrong prediction: a minimum-norm attack reached its target."""


def run_attack(asked: Asked, chosen: Component) -> Found:
    """Call the attack with what its function asks for; its options come from the suite."""
    attack, options = find_attack(chosen.name), dict(chosen.options)
    owner, model = asked.subject, asked.model
    if attack.crafts_on_source:
        owner = asked.others[options.pop("source")]
        model = owner.fast
    given = {
        "threat": asked.threat,
        "norm": "linf" if isinstance(asked.threat, Linf) else "l2",
        "seed": asked.seed,
        "sample_ids": asked.sample_ids.to(owner.device),
        "engine": asked.engine,
    }
    if "objective" in options:
        options["objective"] = resolve_objective(options["objective"], owner)
    settings = {key: value for key, value in given.items() if key in attack.parameters} | options
    batch = model, asked.images.to(owner.device), asked.labels.to(owner.device)
    if chosen.name in ATTACKS:
        return _found(asked, attack, attack(*batch, **settings))
    return _checked(asked, attack, chosen.name, call_function(chosen.name, partial(attack, **settings), *batch))


def resolve_objective(name: str, subject: Subject) -> Objective:
    """The objective of that name, adapted to a model."""
    return find_objective(name)(subject.head)


def _found(asked: Asked, attack: Attack, result: Any) -> Found:
    """The result of an attack of the registry, which has judged its images with the model itself."""
    if attack.crafts_on_source:
        images = result.images.to(asked.images.device)
        predictions = judge(asked.subject.model, images).predictions
        return Found(images, predictions, _moved(asked, images), result.spent, result.passes)
    distances, broken = None, None
    if attack.finds_smallest:
        distances, broken = result.distances, result.success
    elif attack.stays_in_ball:
        distances = _moved(asked, result.images)
    return Found(result.images, result.predictions, distances, result.spent, result.passes, broken)


def _checked(asked: Asked, attack: Attack, name: str, result: object) -> Found:
    """The result of the user's own attack: projected into the ball, and judged by the model."""
    images = result.images if isinstance(result, Attacked) else result
    if not isinstance(images, Tensor) or images.shape != asked.images.shape or images.dtype != asked.images.dtype:
        got = f"{images.dtype} of shape {tuple(images.shape)}" if isinstance(images, Tensor) else type(images).__name__
        raise ArgumentError(
            f"{name} must return an Attacked, or images as it was given them, {asked.images.dtype} of shape "
            f"{tuple(asked.images.shape)}; it returned {got}."
        )
    images = images.detach().to(asked.images.device)
    if attack.stays_in_ball:
        images = asked.threat.project(asked.images, images)
    predictions = judge(asked.subject.model, images).predictions
    cost = (result.spent, result.passes) if isinstance(result, Attacked) else (None, Passes())
    if not isinstance(result, Nearest):
        return Found(images, predictions, _moved(asked, images) if attack.stays_in_ball else None, *cost)
    broken = result.success & (predictions != asked.labels)
    return Found(images, predictions, result.distances, *cost, broken)


def _moved(asked: Asked, images: Float[Tensor, "n c h w"]) -> Float[Tensor, " n"]:
    """How far images lie from the clean ones in the threat's norm."""
    return asked.threat.distances(asked.images, images)
