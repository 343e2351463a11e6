"""What a stage is asked to attack, and what it answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from maxmahal.attacks import L2, Attacked, Engine, Linf, Model, Nearest, Objective, Passes, Spent, parse_epsilon
from maxmahal.evaluate.aims import resolve_objective
from maxmahal.evaluate.judging import judge
from maxmahal.evaluate.subject import Subject


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

    def aim(self, objective: str) -> Objective:
        """The objective of that name, adapted to the model."""
        return resolve_objective(objective, self.subject)

    def step_size(self, given: str | None, steps: int) -> float:
        """As given, or one that crosses the ball and can settle in it."""
        return max(2.5 / steps, 0.05) * self.threat.radius if given is None else parse_epsilon(given, "step_size")


@dataclass(frozen=True)
class Found:
    """One image a sample, and what the model itself says about it."""

    images: Float[Tensor, "n c h w"]
    predictions: Int[Tensor, " n"]
    distances: Float[Tensor, " n"] | None
    """In the attack's norm; None where a distance says nothing."""
    spent: Spent | None
    passes: Passes
    broken: Bool[Tensor, " n"] | None = None
    """Where success is more than a wrong prediction: a minimum-norm attack reached its target."""


def in_ball(asked: Asked, attack: Callable[..., Attacked], **settings: object) -> Found:
    """What an attack finds inside the threat."""
    found = _attack(asked, attack, threat=asked.threat, **settings)
    return Found(found.images, found.predictions, moved(asked, found.images), found.spent, found.passes)


def nearest(asked: Asked, attack: Callable[..., Attacked], **settings: object) -> Found:
    """What a minimum-norm attack finds, and how near."""
    found = _attack(asked, attack, **settings)
    if not isinstance(found, Nearest):
        raise TypeError(f"a minimum-norm attack returns the nearest images; got a {type(found).__name__}")
    return Found(found.images, found.predictions, found.distances, found.spent, found.passes, broken=found.success)


def _attack(asked: Asked, attack: Callable[..., Attacked], **settings: object) -> Attacked:
    """What every attack is told in the same way, and what each is told of its own."""
    return attack(
        asked.model,
        asked.images,
        asked.labels,
        seed=asked.seed,
        sample_ids=asked.sample_ids,
        engine=asked.engine,
        **settings,
    )


def moved(asked: Asked, images: Float[Tensor, "n c h w"]) -> Float[Tensor, " n"]:
    """How far images lie from the clean ones in the threat's norm."""
    return asked.threat.distances(asked.images, images)


def shown(asked: Asked, images: Float[Tensor, "n c h w"], tries: Int[Tensor, " n"]) -> Found:
    """Images that needed no search, as the model takes them."""
    looks = tries + 1
    count = int(looks.sum())
    spent = Spent(tries, looks, torch.zeros_like(tries), looks)
    return Found(images, judge(asked.subject.model, images), None, spent, Passes(count, 0, count))
