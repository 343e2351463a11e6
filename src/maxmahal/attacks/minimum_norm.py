"""The fast minimum-norm attack (Pintor et al. 2021): each sample's smallest epsilon, and so the whole curve."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from maxmahal.attacks.checks import check_choice, check_count, check_positive
from maxmahal.attacks.engine import DEFAULT_ENGINE, Case, Engine, LabelSource, run
from maxmahal.attacks.method import State, Trial
from maxmahal.attacks.objectives import Objective, margin, zero_is_success
from maxmahal.attacks.oracle import Model, Oracle
from maxmahal.attacks.result import Nearest
from maxmahal.attacks.samples import Samples
from maxmahal.attacks.targets import Targets
from maxmahal.attacks.threats import UNIT, Bounds, norms, per_sample
from maxmahal.errors import ArgumentError

Norm = Literal["linf", "l2"]
_WIDE = 2.0  # the first ball over the linear estimate: the boundary is met from outside, where there is more of it


def fmn(
    model: Model,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    *,
    norm: Norm,
    objective: Objective | None = None,
    steps: int = 200,
    step_size: float = 1.0,
    radius_change: float = 0.05,
    seed: int = 0,
    sample_ids: Int[Tensor, " n"] | None = None,
    targets: Targets = None,
    label_source: LabelSource = "true",
    bounds: Bounds = UNIT,
    engine: Engine = DEFAULT_ENGINE,
) -> Nearest:
    """The nearest successful image of every sample in the norm.

    Steps of unit-length gradients inside a ball whose radius shrinks by ``radius_change`` while the sample is broken,
    and grows by it while it is not; both fall along a cosine, the step from ``step_size`` to a hundredth of it. The
    objective, the margin unless another is given, must have its threshold of success at zero: its value over the
    gradient's length is the first estimate of the distance. ``seed`` matters only for random targets.
    """
    chosen = margin() if objective is None else objective
    if not zero_is_success(chosen):
        raise ArgumentError("fmn needs an objective whose zero is its threshold of success, such as margin() or dlr().")
    found = run(
        MinimumNorm(norm, steps, step_size, radius_change, bounds),
        model,
        Case(images, labels, seed, sample_ids, targets, label_source),
        objective=chosen,
        engine=engine,
        keep="nearest",
        bounds=bounds,
    )
    assert isinstance(found, Nearest), "keep='nearest' returns a Nearest"
    return found


@dataclass(frozen=True)
class MinimumNorm:
    """A ball that follows the decision boundary, and a point that walks inside it."""

    norm: Norm
    steps: int
    step_size: float
    radius_change: float
    bounds: Bounds

    def __post_init__(self) -> None:
        check_choice("norm", self.norm, ("linf", "l2"))
        check_count("steps", self.steps)
        check_positive("step_size", self.step_size)
        check_positive("radius_change", self.radius_change)

    def begin(self, samples: Samples, attempt: int) -> State:  # noqa: ARG002
        """At the image, in a ball of unknown radius."""
        numbers = samples.images.new_zeros(len(samples))
        return {
            "moved": samples.images,
            "radius": numbers,
            "nearest": numbers + torch.inf,
            "taken": torch.zeros_like(samples.labels),
        }

    def step(self, samples: Samples, state: State, oracle: Oracle) -> Trial:
        """One look; the ball first, then the point."""
        seen = state["moved"]
        look, gradient = oracle.gradient(seen, samples)
        distances = self._lengths(seen - samples.images)
        success = samples.ranks(look.predictions) >= samples.goal
        state["nearest"] = torch.where(success & (distances < state["nearest"]), distances, state["nearest"])
        share = _cosine(state["taken"], self.steps)
        self._follow(state, success, distances + _WIDE * look.values.clamp_min(0) / self._slopes(gradient), share)
        lengths = self.step_size * (0.01 + 0.99 * share) / norms(gradient).clamp_min(1e-30)
        change = seen - per_sample(lengths.to(seen.dtype)) * gradient - samples.images
        state["moved"] = (samples.images + self._into_ball(change, state["radius"])).clamp_(*self.bounds)
        state["taken"] = state["taken"] + 1
        return Trial(seen, look.predictions, distances, state["taken"] >= self.steps)

    def final(self, state: State) -> None:
        """The last step's image is one of many."""

    def _follow(self, state: State, success: Bool[Tensor, " n"], estimate: Tensor, share: Tensor) -> None:
        """Until the first success at least the linear estimate of the distance, and growing; then it closes in."""
        gamma = (self.radius_change * share).clamp_min(1e-4)
        shrunk = torch.minimum(state["radius"] * (1 - gamma), state["nearest"])
        grown = state["radius"] * (1 + gamma)
        # The estimate knows nothing of the bounds: where they bite, only growth gets a sample over the boundary.
        grown = torch.where(state["nearest"].isfinite(), grown, torch.maximum(grown, estimate.to(grown.dtype)))
        state["radius"] = torch.where(success, shrunk, grown)

    def _lengths(self, change: Tensor) -> Float[Tensor, " n"]:
        return norms(change) if self.norm == "l2" else change.abs().flatten(1).amax(dim=1)

    def _slopes(self, gradient: Tensor) -> Float[Tensor, " n"]:
        """How fast the objective can fall for each unit of distance: the gradient's dual norm."""
        slopes = norms(gradient) if self.norm == "l2" else gradient.abs().flatten(1).sum(dim=1)
        return slopes.clamp_min(1e-12)

    def _into_ball(self, change: Float[Tensor, "n c h w"], radius: Float[Tensor, " n"]) -> Float[Tensor, "n c h w"]:
        if self.norm == "linf":
            limit = per_sample(radius.clamp_max(self.bounds[1] - self.bounds[0]))
            return torch.minimum(torch.maximum(change, -limit), limit)
        return change * per_sample((radius / norms(change).clamp_min(1e-30)).clamp_max(1))


def _cosine(taken: Int[Tensor, " n"], steps: int) -> Float[Tensor, " n"]:
    """From 1 at the first step down to 0 at the last."""
    return 0.5 * (1 + (math.pi * taken.float() / max(steps - 1, 1)).cos())
