"""The worst case over several attacks, on tensors: each attack runs on the samples that are still correct."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from maxmahal.attacks import L2, Engine, Linf, Model, Objective, Prepared, Result, apgd, cross_entropy, margin, prepare
from maxmahal.attacks.checks import check_images, check_model
from maxmahal.attacks.oracle import judge
from maxmahal.attacks.threats import as_ball
from maxmahal.errors import check_count
from maxmahal.evaluate.diagnose.probe import gives_gradients
from maxmahal.evaluate.evaluated_model import EvaluatedModel
from maxmahal.evaluate.plan import Traits, why_not
from maxmahal.evaluate.stage import StageInput, run_attack
from maxmahal.evaluate.suite import Stage, load_suite, title_for
from maxmahal.imports import only_named
from maxmahal.random import content_ids, stream_key


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


def attack_hard(
    model: Model,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    threat: Linf | L2 | str | float,
    *,
    seed: int = 0,
    suite: str | Path = "strict",
    sample_ids: Int[Tensor, " n"] | None = None,
    engine: Engine | None = None,
) -> WorstCase:
    """The worst case per sample under the attacks of a suite that count; clean errors count as broken.

    The same attacks with the same seeds as ``evaluate_model`` with this suite, without diagnostics and records.
    """
    ball = as_ball(threat, "attack_hard")
    check_images(images, labels, sample_ids, ball.bounds)
    check_model(model, images)
    chosen = load_suite(suite)
    fast = prepare(model) if isinstance(model, nn.Module) else model
    target = EvaluatedModel("model", "", fast.original if isinstance(fast, Prepared) else model, "")

    def attack(stage: Stage, images: Tensor, labels: Tensor, sample_ids: Tensor) -> Result:
        search = fast.precise() if stage.search == "precise" and isinstance(fast, Prepared) else fast
        own_seed = stream_key(seed, stage.name) % 2**63
        return run_attack(
            StageInput(stage, target, search, images, labels, sample_ids, ball, own_seed, engine or Engine(), others={})
        )

    with only_named(chosen.to_table()):
        classes = judge(model, images[:1]).logits.shape[1]
        traits = Traits(classes, False, gives_gradients(target.model, images[:2]), bpda=False)
        stages = [stage for stage in chosen.stages if stage.counts and not why_not(stage, target, traits, {})]
        runs = [(title_for(stage, classes), partial(attack, stage)) for stage in stages]
        return _in_turn(runs, images, labels, sample_ids)


def attack_within(
    model: Model,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    threat: Linf | L2 | str | float,
    *,
    gradients: int,
    seed: int = 0,
    sample_ids: Int[Tensor, " n"] | None = None,
    engine: Engine | None = None,
) -> WorstCase:
    """The worst case that at most ``gradients`` gradients per sample find, for a small budget.

    Several short runs of APGD that alternate between the margin and the cross-entropy find more than one long run:
    where one objective is flat the other often is not, and a new start does more than steps of a size that has shrunk.
    From 200 gradients on, those after the first 100 aim at each other class in turn.
    """
    check_count("gradients", gradients)
    ball = as_ball(threat, "attack_within")
    check_images(images, labels, sample_ids, ball.bounds)
    check_model(model, images)
    classes = judge(model, images[:1]).logits.shape[1]
    runs: list[tuple[str, Callable[..., Result]]] = []

    def plan(name: str, objective: Objective, steps: int, targets: str | None = None) -> None:
        own_seed = stream_key(seed, name) % 2**63
        attack = partial(apgd, model, threat=ball, engine=engine or Engine())
        runs.append((name, partial(attack, objective=objective, steps=steps, targets=targets, seed=own_seed)))

    aimed = max(gradients - 100, 0) if gradients >= 200 else 0
    for turn in range(4):
        name, objective = ("cross-entropy", cross_entropy()) if turn % 2 else ("margin", margin())
        if steps := (gradients - aimed + 3 - turn) // 4:
            plan(f"APGD-{steps}, {name}, run {turn + 1}", objective, steps)
    if aimed:
        targets = max(1, min(9, classes - 1))
        others = "the other class" if targets == 1 else f"each of {targets} classes"
        plan(f"APGD-{aimed // targets}, margin to {others}", margin(), aimed // targets, "top-9")
    return _in_turn(runs, images, labels, sample_ids)


def _in_turn(
    attacks: Sequence[tuple[str, Callable[..., Result]]], images: Tensor, labels: Tensor, ids: Tensor | None
) -> WorstCase:
    """Each attack on the samples that the ones before it left."""
    images = images.detach()
    ids = content_ids(images, labels) if ids is None else ids
    found, fooled = images.clone(), torch.zeros_like(labels, dtype=torch.bool)
    survivors = {}
    for title, attack in attacks:
        rows = (~fooled).nonzero().squeeze(1)
        if len(rows):
            result = attack(images[rows], labels[rows], sample_ids=ids[rows])
            found[rows], fooled[rows] = result.images, result.predictions != labels[rows]
        survivors[title] = int((~fooled).sum())
    return WorstCase(found, fooled, survivors)
