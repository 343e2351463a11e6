"""The worst case over several attacks, on tensors: each attack runs on the samples that are still correct."""

from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from maxmahal.attacks import L2, Engine, Linf, Model, Objective, Prepared, apgd, cross_entropy, margin, prepare
from maxmahal.attacks.checks import check_count, check_images, check_model
from maxmahal.attacks.oracle import judge
from maxmahal.evaluate.diagnose.probe import gives_gradients
from maxmahal.evaluate.evaluated_model import EvaluatedModel
from maxmahal.evaluate.plan import Traits, why_not
from maxmahal.evaluate.stage import StageInput, run_attack
from maxmahal.evaluate.suite import Stage, load_suite
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


class _Survivors:
    """The samples, and which of them are broken so far."""

    def __init__(self, images: Tensor, labels: Tensor, ids: Tensor | None) -> None:
        self.images, self.labels = images, labels
        self.ids = content_ids(images, labels) if ids is None else ids
        self._found, self._fooled = images.clone(), torch.zeros_like(labels, dtype=torch.bool)
        self.counts: dict[str, int] = {}
        """How many samples are left after each attack."""

    def rows(self) -> Int[Tensor, " m"]:
        """The samples that are still correct."""
        return (~self._fooled).nonzero().squeeze(1)

    def take(self, name: str, rows: Tensor, images: Tensor, fooled: Tensor) -> None:
        """What an attack found for these rows."""
        self._found[rows], self._fooled[rows] = images, fooled
        self.counts[name] = int((~self._fooled).sum())

    def worst_case(self) -> WorstCase:
        return WorstCase(self._found, self._fooled, self.counts)


def attack_hard(
    model: Model,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    *,
    threat: Linf | L2,
    seed: int,
    suite: str | Path = "strict",
    sample_ids: Int[Tensor, " n"] | None = None,
    engine: Engine | None = None,
) -> WorstCase:
    """The worst case per sample under the attacks of a suite that count; clean errors count as broken.

    The same attacks with the same seeds as ``evaluate_model`` with this suite, without diagnostics and records.
    """
    check_images(images, labels, sample_ids, threat.bounds)
    check_model(model, images)
    chosen = load_suite(suite)
    original = model.original if isinstance(model, Prepared) else model
    target, fast = EvaluatedModel("model", "", original, ""), _prepared(model)
    with only_named(chosen.to_table()):
        classes = judge(model, images[:1]).logits.shape[1]
        traits = Traits(classes, False, gives_gradients(original, images[:2]), bpda=False)
        left = _Survivors(images, labels, sample_ids)
        for stage in chosen.stages:
            if stage.counts and not why_not(stage, target, traits, {}):
                left.counts[stage.title] = len(left.rows())
                if len(left.rows()):
                    _run_stage(stage, target, fast, left, threat, seed, engine or Engine())
    return left.worst_case()


def _run_stage(
    stage: Stage, target: EvaluatedModel, fast: Model, left: _Survivors, threat: Linf | L2, seed: int, engine: Engine
) -> None:
    rows = left.rows()
    search = fast.precise() if stage.search == "precise" and isinstance(fast, Prepared) else fast
    task = StageInput(
        stage=stage,
        target=target,
        model=search,
        images=left.images[rows],
        labels=left.labels[rows],
        sample_ids=left.ids[rows],
        threat=threat,
        seed=stream_key(seed, stage.name) % 2**63,
        engine=engine,
        others={},
    )
    found = run_attack(task)
    left.take(stage.title, rows, found.images, found.predictions != task.labels)


def _prepared(model: Model) -> Model:
    return prepare(model) if isinstance(model, nn.Module) else model


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
    """The worst case that at most ``gradients`` gradients per sample find, for a small budget.

    Several short runs of APGD that alternate between the margin and the cross-entropy find more than one long run:
    where one objective is flat the other often is not, and a new start does more than steps of a size that has shrunk.
    From 200 gradients on, those after the first 100 aim at each other class in turn.
    """
    check_count("gradients", gradients)
    check_images(images, labels, sample_ids, threat.bounds)
    check_model(model, images)
    left = _Survivors(images, labels, sample_ids)
    for run in _short_runs(gradients, min(9, judge(model, images[:1]).logits.shape[1] - 1)):
        rows = left.rows()
        left.counts[run.name] = len(rows)
        if len(rows):
            found = apgd(
                model,
                images[rows],
                labels[rows],
                objective=run.objective,
                threat=threat,
                steps=run.steps,
                seed=stream_key(seed, run.name) % 2**63,
                sample_ids=left.ids[rows],
                targets=run.targets,
                engine=engine or Engine(),
            )
            left.take(run.name, rows, found.images, found.fooled)
    return left.worst_case()


@dataclass(frozen=True)
class _ShortRun:
    """One run of APGD."""

    name: str
    objective: Objective
    steps: int
    targets: str | None = None


def _short_runs(gradients: int, targets: int) -> list[_ShortRun]:
    """Runs of a quarter of the gradients each, or of 25 and then the rest shared out among ``targets`` classes."""
    aims = gradients >= 200
    open_gradients = 100 if aims else gradients
    runs = []
    for turn in range(4):
        name, objective = ("cross-entropy", cross_entropy()) if turn % 2 else ("margin", margin())
        if steps := (open_gradients + 3 - turn) // 4:
            runs.append(_ShortRun(f"APGD-{steps}, {name}, run {turn + 1}", objective, steps))
    if aims:
        steps = (gradients - open_gradients) // targets
        runs.append(_ShortRun(f"APGD-{steps}, margin to each of {targets} classes", margin(), steps, "top-9"))
    return runs
