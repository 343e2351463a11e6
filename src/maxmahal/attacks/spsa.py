"""Simultaneous perturbation (SPSA, Uesato et al. 2018): descent on a gradient that is estimated from queries alone.

The objective is asked at mirrored pairs x ± δv, with every pixel of v drawn as -1 or 1, and the mean over the pairs of
(f(x + δv) - f(x - δv)) / 2δ · v replaces the gradient.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from maxmahal.attacks.checks import check_positive, check_threat
from maxmahal.attacks.engine import DEFAULT_ENGINE, Case, Engine, LabelSource, run
from maxmahal.attacks.method import State, Trial
from maxmahal.attacks.objectives import MARGIN, Objective
from maxmahal.attacks.oracle import Model, Oracle, Samples
from maxmahal.attacks.result import Result
from maxmahal.attacks.targets import Targets
from maxmahal.attacks.threats import Images, Threat, per_sample
from maxmahal.errors import ArgumentError, check_count
from maxmahal.random import derive, signs

_FADE_MEAN, _FADE_SQUARE = 0.9, 0.999  # Adam's usual constants
_TINY = 1e-60  # not the usual 1e-8, and in float64: the size of the objective must not matter


def spsa(
    model: Model,
    images: Images,
    labels: Int[Tensor, " n"],
    threat: Threat | str | float,
    *,
    objective: Objective = MARGIN,
    steps: int = 10,
    evaluations: int = 128,
    delta: float = 0.01,
    learning_rate: float = 0.01,
    seed: int = 0,
    sample_ids: Int[Tensor, " n"] | None = None,
    targets: Targets = None,
    label_source: LabelSource = "true",
    random_start: bool = False,
    keep: Literal["best", "last"] = "best",
    engine: Engine = DEFAULT_ENGINE,
) -> Result:
    """Images inside the threat that make ``objective`` small, found by queries: ``model`` may be a predict function.

    Each step takes ``evaluations`` queries (half as many mirrored pairs) for the estimate and one to see where it led;
    Adam turns the estimate into a step. ``keep`` and several targets as in ``pgd``. The points x ±
    δv may leave the threat and the pixel bounds by δ, as in the authors' code: a clipped pair is not mirrored.
    """
    threat = check_threat(threat, images)
    method = QueriedDescent(threat, steps, evaluations, delta, learning_rate, seed, random_start)
    case = Case(images, labels, seed, sample_ids, targets, label_source)
    return run(method, model, case, objective=objective, engine=engine, keep=keep, threat=threat)


@dataclass(frozen=True)
class QueriedDescent:
    """An estimate of the gradient, a step of Adam against it, then back into the threat."""

    threat: Threat
    steps: int
    evaluations: int
    delta: float
    learning_rate: float
    seed: int
    random_start: bool = False

    def __post_init__(self) -> None:
        check_count("steps", self.steps)
        check_count("evaluations", self.evaluations, least=2)
        if self.evaluations % 2:
            raise ArgumentError(f"evaluations must be even, for they come in mirrored pairs; got {self.evaluations}.")
        check_positive("delta", self.delta)
        check_positive("learning_rate", self.learning_rate)

    def begin(self, samples: Samples, attempt: int) -> State:
        """The image itself, or a random point of the threat, and Adam's initial state."""
        moved = samples.images
        if self.random_start:
            moved = self.threat.random_start(moved, samples.ids, "spsa-start", self.seed, attempt)
        return {
            "moved": moved,
            "mean": torch.zeros_like(moved, dtype=torch.float64),
            "square": torch.zeros_like(moved, dtype=torch.float64),
            "taken": torch.zeros_like(samples.labels),
            "ids": derive(samples.ids, torch.full_like(samples.ids, attempt)),
        }

    def step(self, samples: Samples, state: State, oracle: Oracle) -> Trial:
        """One estimate, one step, and one look at where it led: a success leaves before it costs another estimate."""
        ids = derive(state["ids"], state["taken"])
        estimate = estimate_gradient(
            oracle, samples, state["moved"], ids, pairs=self.evaluations // 2, delta=self.delta, seed=self.seed
        ).double()
        state["taken"] = state["taken"] + 1
        taken = per_sample(state["taken"].to(estimate.dtype))
        state["mean"] = _FADE_MEAN * state["mean"] + (1 - _FADE_MEAN) * estimate
        state["square"] = _FADE_SQUARE * state["square"] + (1 - _FADE_SQUARE) * estimate.square()
        mean, square = state["mean"] / (1 - _FADE_MEAN**taken), state["square"] / (1 - _FADE_SQUARE**taken)
        change = self.learning_rate * (mean / (square.sqrt() + _TINY))  # each sample counts its steps
        moved = self.threat.project(samples.images, state["moved"] - change.to(samples.images.dtype))
        state["moved"] = moved
        look = oracle.look(moved, samples)
        return Trial(moved, look.predictions, look.values, state["taken"] >= self.steps)

    def final(self, state: State) -> Images:
        """Where the last step led: seen by the search, but not yet judged by the model itself."""
        return state["moved"]


def estimate_gradient(
    oracle: Oracle, samples: Samples, images: Images, ids: Int[Tensor, " n"], *, pairs: int, delta: float, seed: int
) -> Images:
    """The mean over ``pairs`` of (f(x + δv) - f(x - δv)) / 2δ · v.

    Pair k of a sample has the same direction however the work is cut into pieces; a pair whose objective is not finite
    counts as 0.
    """
    # A few times what the model takes at once: enough to fill its batches, and no more memory for more evaluations.
    at_once = max(1, 2 * oracle.chunk // len(images))
    total = torch.zeros_like(images).flatten(1)
    for start in range(0, pairs, at_once):
        numbers = torch.arange(start, min(start + at_once, pairs), device=images.device)
        own = derive(ids.repeat_interleave(len(numbers)), numbers.repeat(len(ids)))
        drawn = signs(own, images.shape[1:], "spsa", seed).to(images.dtype)
        directions = drawn.reshape(len(ids), len(numbers), *images.shape[1:])
        around = images.new_empty(len(ids), 2, len(numbers), *images.shape[1:])
        torch.add(images[:, None], directions, alpha=delta, out=around[:, 0])
        torch.sub(images[:, None], directions, alpha=delta, out=around[:, 1])
        owners = torch.arange(len(ids), device=images.device).repeat_interleave(2 * len(numbers))
        asked = replace(samples, images=images[:, :0]).select(owners)  # ``around`` has the pixels
        values = oracle.look(around.flatten(0, 2), asked).values.reshape(len(ids), 2, len(numbers))
        slopes = ((values[:, 0] - values[:, 1]) / (2 * delta)).to(images.dtype)
        slopes = torch.nan_to_num(slopes, nan=0.0, posinf=0.0, neginf=0.0)
        total += torch.bmm(slopes[:, None], directions.flatten(2)).squeeze(1)
    return (total / pairs).reshape(images.shape)
