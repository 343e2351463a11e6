"""The momentum iterative method (Dong et al.): gradients gathered over the steps, which transfers well."""

import math
from dataclasses import dataclass
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
from maxmahal.attacks.threats import LEAST_NORM, Images, Threat, find_step_size
from maxmahal.errors import ArgumentError, check_count


def mim(
    model: Model,
    images: Images,
    labels: Int[Tensor, " n"],
    threat: Threat | str | float,
    *,
    objective: Objective = MARGIN,
    steps: int = 10,
    step_size: str | float | None = None,
    decay: float = 1.0,
    seed: int = 0,
    sample_ids: Int[Tensor, " n"] | None = None,
    targets: Targets = None,
    label_source: LabelSource = "true",
    keep: Literal["best", "last"] = "best",
    engine: Engine = DEFAULT_ENGINE,
) -> Result:
    """Steps along a momentum of gradients of unit L1 norm, from the image; ``seed`` matters for random targets alone.

    ``keep`` and ``step_size`` as in ``pgd``.
    """
    threat = check_threat(threat, images)
    method = MomentumDescent(threat, steps, find_step_size(step_size, threat, steps), decay)
    case = Case(images, labels, seed, sample_ids, targets, label_source)
    return run(method, model, case, objective=objective, engine=engine, keep=keep, threat=threat)


@dataclass(frozen=True)
class MomentumDescent:
    """g ← decay·g + ∇/‖∇‖₁, then a step against g and back into the threat."""

    threat: Threat
    steps: int
    step_size: float
    decay: float

    def __post_init__(self) -> None:
        check_count("steps", self.steps)
        check_positive("step_size", self.step_size)
        if not 0 <= self.decay < math.inf:
            raise ArgumentError(f"decay must be finite and not negative; got {self.decay}.")

    def begin(self, samples: Samples, attempt: int) -> State:  # noqa: ARG002
        """The image itself, without momentum."""
        images = samples.images
        return {"moved": images, "momentum": torch.zeros_like(images), "taken": torch.zeros_like(samples.labels)}

    def step(self, samples: Samples, state: State, oracle: Oracle) -> Trial:
        """One look, one step."""
        seen = state["moved"]
        look, gradient = oracle.gradient(seen, samples)
        sizes = gradient.abs().sum(dim=(1, 2, 3), keepdim=True).clamp_min(LEAST_NORM)
        state["momentum"] = self.decay * state["momentum"] + gradient / sizes
        moved = self.threat.descend(seen, state["momentum"], self.step_size)
        state["moved"] = self.threat.project(samples.images, moved)
        state["taken"] = state["taken"] + 1
        return Trial(seen, look.predictions, look.values, state["taken"] >= self.steps)

    def final(self, state: State) -> Images:
        """Where the last step led."""
        return state["moved"]
