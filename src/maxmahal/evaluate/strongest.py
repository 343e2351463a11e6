"""The strongest attacks at hand in one chain: each goes on with the samples that the ones before it left."""

from collections.abc import Callable
from dataclasses import dataclass

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
from maxmahal.losses import CenterHead
from maxmahal.models import Classifier


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
    effort: Effort
    seed: int
    engine: Engine

    def apgd(self, objective: Objective, targets: str | None = None) -> Attacked:
        return apgd(
            self.model,
            self.images,
            self.labels,
            objective=objective,
            threat=self.threat,
            steps=self.effort.steps,
            seed=self.seed,
            sample_ids=self.sample_ids,
            targets=targets,
            restarts=self.effort.restarts,
            engine=self.engine,
        )

    def pgd(self, objective: Objective, targets: str | None = None) -> Attacked:
        return pgd(
            self.model,
            self.images,
            self.labels,
            objective=objective,
            threat=self.threat,
            steps=self.effort.steps,
            step_size=max(2.5 / self.effort.steps, 0.05) * self.threat.radius,
            seed=self.seed,
            sample_ids=self.sample_ids,
            targets=targets,
            restarts=self.effort.restarts,
            engine=self.engine,
        )

    def square(self) -> Attacked:
        return square(
            self.model,
            self.images,
            self.labels,
            threat=self.threat,
            queries=self.effort.queries,
            seed=self.seed,
            sample_ids=self.sample_ids,
            engine=self.engine,
        )


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
    effort, engine = effort or Effort(), engine or Engine()
    found, fooled = images.clone(), torch.zeros_like(labels, dtype=torch.bool)
    survivors: dict[str, int] = {}
    for name, attack in _chain(model, images).items():
        rows = (~fooled).nonzero().squeeze(1)
        if len(rows):
            ids = None if sample_ids is None else sample_ids[rows]
            result = attack(_Rest(model, images[rows], labels[rows], ids, threat, effort, seed, engine))
            found[rows], fooled[rows] = result.images, result.fooled
        survivors[name] = int((~fooled).sum())
    return WorstCase(found, fooled, survivors)


def _chain(model: Model, images: Tensor) -> dict[str, Callable[[_Rest], Attacked]]:
    """Cheap attacks first; those that need gradients, a head's loss, centers or four classes only where there are."""
    module = model.original if isinstance(model, Prepared) else model
    if not isinstance(module, nn.Module):
        return {"Square": lambda rest: rest.square()}
    with torch.no_grad():
        classes = module(images[:1]).shape[1]
    chain: dict[str, Callable[[_Rest], Attacked]] = {
        "APGD, margin": lambda rest: rest.apgd(margin()),
        "APGD, cross-entropy": lambda rest: rest.apgd(cross_entropy()),
    }
    if isinstance(module, Classifier):
        chain["PGD, own loss"] = lambda rest: rest.pgd(own_loss(module.head))
        if isinstance(module.head, CenterHead):
            chain["APGD, nearest center"] = lambda rest: rest.apgd(nearest_center(module.head))
    chain["APGD, margin to each of 9 classes"] = lambda rest: rest.apgd(margin(), "top-9")
    if classes >= 4:
        chain["APGD, DLR to each of 9 classes"] = lambda rest: rest.apgd(dlr(), "top-9")
    chain["PGD, margin to every class"] = lambda rest: rest.pgd(margin(), "all-others")
    chain["Square"] = lambda rest: rest.square()
    return chain
