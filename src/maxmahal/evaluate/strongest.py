"""The strongest attacks at hand in one chain: each goes on with the samples that the ones before it left."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from maxmahal.attacks import (
    L2,
    Attacked,
    Engine,
    Linf,
    Model,
    Objective,
    Prepared,
    apgd,
    cross_entropy,
    dlr,
    margin,
    nearest_center,
    own_loss,
    pgd,
    square,
)
from maxmahal.attacks.checks import check_count, check_images, check_model
from maxmahal.models import Classifier
from maxmahal.random import stream_key


@dataclass(frozen=True)
class Effort:
    """How long each attack of the chain may look."""

    steps: int = 100
    restarts: int = 1
    queries: int = 1000


@dataclass(frozen=True)
class WorstCase:
    """Which samples some attack broke, with what image, and how many were left after each attack."""

    images: Float[Tensor, "n c h w"]
    fooled: Bool[Tensor, " n"]
    survivors: dict[str, int]

    @property
    def accuracy(self) -> float:
        """Share of the samples that no attack broke."""
        return float((~self.fooled).double().mean())


@dataclass(frozen=True)
class _Rest:
    """The samples that are still standing, as the next attack gets them."""

    model: Model
    images: Tensor
    labels: Tensor
    sample_ids: Tensor | None
    threat: Linf | L2
    seed: int
    engine: Engine

    def apgd(self, objective: Objective, steps: int, restarts: int = 1, targets: str | None = None) -> Attacked:
        return apgd(
            self.model,
            self.images,
            self.labels,
            objective=objective,
            threat=self.threat,
            steps=steps,
            seed=self.seed,
            sample_ids=self.sample_ids,
            targets=targets,
            restarts=restarts,
            engine=self.engine,
        )

    def pgd(self, objective: Objective, steps: int, restarts: int, targets: str | None = None) -> Attacked:
        return pgd(
            self.model,
            self.images,
            self.labels,
            objective=objective,
            threat=self.threat,
            steps=steps,
            step_size=max(2.5 / steps, 0.05) * self.threat.radius,
            seed=self.seed,
            sample_ids=self.sample_ids,
            targets=targets,
            restarts=restarts,
            engine=self.engine,
        )

    def square(self, queries: int) -> Attacked:
        return square(
            self.model,
            self.images,
            self.labels,
            threat=self.threat,
            queries=queries,
            seed=self.seed,
            sample_ids=self.sample_ids,
            engine=self.engine,
        )


_Chain = dict[str, Callable[[_Rest], Attacked]]


def attack_hard(
    model: Model,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    *,
    threat: Linf | L2,
    seed: int,
    effort: Effort | None = None,
    sample_ids: Int[Tensor, " n"] | None = None,
    engine: Engine | None = None,
) -> WorstCase:
    """The worst case per sample over the whole chain; clean errors count as broken."""
    check_images(images, labels, sample_ids, threat.bounds)
    check_model(model, images)
    standing = _Rest(model, images, labels, sample_ids, threat, seed, engine or Engine())
    return _attack_in_turn(standing, _full_chain(model, images, effort or Effort()))


def attack_within(
    model: Model,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    *,
    threat: Linf | L2,
    gradients: int,
    seed: int,
    sample_ids: Int[Tensor, " n"] | None = None,
    engine: Engine | None = None,
) -> WorstCase:
    """The worst case that at most ``gradients`` gradients a sample find: what to run where each pass counts.

    Several short runs of APGD that take turns with the margin and the cross-entropy find more than one long run: where
    one objective is flat the other often is not, and a new start does more than steps of a size that has shrunk. From
    200 gradients on, those after the first 100 aim at each other class in turn.
    """
    check_count("gradients", gradients)
    check_images(images, labels, sample_ids, threat.bounds)
    check_model(model, images)
    standing = _Rest(model, images, labels, sample_ids, threat, seed, engine or Engine())
    return _attack_in_turn(standing, _short_chain(gradients, min(9, _classes(model, images) - 1)))


def _attack_in_turn(start: _Rest, chain: _Chain) -> WorstCase:
    """Each attack on what those before it left, with random numbers of its own."""
    found, fooled = start.images.clone(), torch.zeros_like(start.labels, dtype=torch.bool)
    survivors: dict[str, int] = {}
    for name, attack in chain.items():
        rows = (~fooled).nonzero().squeeze(1)
        if len(rows):
            ids = None if start.sample_ids is None else start.sample_ids[rows]
            seed = stream_key(start.seed, name) % 2**63
            rest = replace(start, images=start.images[rows], labels=start.labels[rows], sample_ids=ids, seed=seed)
            result = attack(rest)
            found[rows], fooled[rows] = result.images, result.fooled
        survivors[name] = int((~fooled).sum())
    return WorstCase(found, fooled, survivors)


def _full_chain(model: Model, images: Tensor, effort: Effort) -> _Chain:
    """Cheap attacks first; those that need gradients, a head's loss, centers or four classes only where there are."""
    module = model.original if isinstance(model, Prepared) else model
    steps, restarts = effort.steps, effort.restarts
    if not isinstance(module, nn.Module):
        return {"Square": lambda rest: rest.square(effort.queries)}
    chain: _Chain = {
        "APGD, margin": lambda rest: rest.apgd(margin(), steps, restarts),
        "APGD, cross-entropy": lambda rest: rest.apgd(cross_entropy(), steps, restarts),
    }
    if isinstance(module, Classifier):
        chain["PGD, own loss"] = lambda rest: rest.pgd(own_loss(module.head), steps, restarts)
        if module.head.has_preset_centers:
            chain["APGD, nearest center"] = lambda rest: rest.apgd(nearest_center(module.head), steps, restarts)
    chain["APGD, margin to each of 9 classes"] = lambda rest: rest.apgd(margin(), steps, restarts, "top-9")
    if _classes(module, images) >= 4:
        chain["APGD, DLR to each of 9 classes"] = lambda rest: rest.apgd(dlr(), steps, restarts, "top-9")
    chain["PGD, margin to every class"] = lambda rest: rest.pgd(margin(), steps, restarts, "all-others")
    chain["Square"] = lambda rest: rest.square(effort.queries)
    return chain


def _short_chain(gradients: int, targets: int) -> _Chain:
    """Runs of a quarter of the gradients each, or of 25 and then the rest shared out among ``targets`` classes."""
    aims = gradients >= 200
    open_gradients = 100 if aims else gradients
    chain: _Chain = {}
    for turn in range(4):
        name, objective = ("cross-entropy", cross_entropy()) if turn % 2 else ("margin", margin())
        if steps := (open_gradients + 3 - turn) // 4:
            chain[f"APGD-{steps}, {name}, run {turn + 1}"] = partial(_Rest.apgd, objective=objective, steps=steps)
    if aims:
        steps = (gradients - open_gradients) // targets
        chain[f"APGD-{steps}, margin to each of {targets} classes"] = partial(
            _Rest.apgd, objective=margin(), steps=steps, targets="top-9"
        )
    return chain


def _classes(model: Model, images: Tensor) -> int:
    with torch.no_grad():
        return int((model.original if isinstance(model, Prepared) else model)(images[:1]).shape[1])
