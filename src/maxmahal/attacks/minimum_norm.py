"""The fast minimum-norm attack (Pintor et al. 2021): each sample's smallest epsilon, and so the whole robustness curve.

Steps and radii are shares of the distance that the first gradient promises, so one setting serves all models.
"""

import math
from dataclasses import dataclass
from typing import Literal, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from maxmahal.attacks.checks import check_positive
from maxmahal.attacks.engine import DEFAULT_ENGINE, Case, Engine, LabelSource, run
from maxmahal.attacks.method import State, Trial, cosine, start_again, succeeds
from maxmahal.attacks.objectives import MARGIN_OVER_ALL, Objective, zero_is_success
from maxmahal.attacks.oracle import Model, Oracle, Samples
from maxmahal.attacks.result import Nearest
from maxmahal.attacks.targets import Targets
from maxmahal.attacks.threats import LEAST_NORM, UNIT, Bounds, Images, check_bounds, norms, per_sample
from maxmahal.errors import ArgumentError, check_choice, check_count

NormName = Literal["linf", "l2"]

_BETA_1, _BETA_2 = 0.8, 0.99  # Adam's, for L∞
_ENOUGH = {"l2": 30, "linf": 50}  # steps for a descent to settle
_FIRST = 2.0  # times the promised distance: boundaries curve away more often than not
_GROWTH = 1.3  # of the radius at every step until a descent's first success
_LEAST = 1e-3  # of the largest distance there is: the first radius where the objective promises nothing


def fmn(
    model: Model,
    images: Images,
    labels: Int[Tensor, " n"],
    *,
    norm: NormName = "linf",
    objective: Objective = MARGIN_OVER_ALL,
    steps: int = 200,
    step_size: float = 1.0,
    radius_change: float = 0.1,
    descents: int | None = None,
    seed: int = 0,
    sample_ids: Int[Tensor, " n"] | None = None,
    targets: Targets = None,
    label_source: LabelSource = "true",
    bounds: Bounds = UNIT,
    engine: Engine = DEFAULT_ENGINE,
) -> Nearest:
    """The nearest successful image of every sample in the norm.

    A point walks in a ball whose radius shrinks by ``radius_change`` at every step while the sample is broken and grows
    while it is not; its steps are ``step_size`` times the radius. Both fall along a cosine. ``steps`` are shared out
    among ``descents``, by default one for every 30 steps in L2 and 50 in L∞; those after the first start at random.
    """
    check_choice("norm", norm, ("linf", "l2"))
    check_count("steps", steps)
    check_bounds(bounds)
    parts = min(max(steps // _ENOUGH[norm], 2 if steps >= 50 else 1), 10) if descents is None else descents
    check_count("descents", parts)
    if parts > steps:
        raise ArgumentError(f"descents must not outnumber the {steps} steps; got {parts}.")
    method = MinimumNorm(norm, steps, parts, step_size, radius_change, zero_is_success(objective), seed, bounds)
    case = Case(images, labels, seed, sample_ids, targets, label_source)
    found = run(method, model, case, objective=objective, engine=engine, keep="nearest", bounds=bounds)
    return cast(Nearest, found)


@dataclass(frozen=True)
class MinimumNorm:
    """A ball that closes in on the decision boundary, and a point that moves inside it."""

    norm: NormName
    steps: int
    descents: int
    step_size: float
    radius_change: float
    zero_is_success: bool
    seed: int
    bounds: Bounds

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        if not 0 < self.radius_change < 1:
            raise ArgumentError(f"radius_change must lie between 0 and 1; got {self.radius_change}.")

    def begin(self, samples: Samples, attempt: int) -> State:
        """At the image, in a ball of unknown radius."""
        state = {
            "moved": samples.images,
            "radius": samples.images.new_zeros(len(samples)),
            "nearest": samples.images.new_full((len(samples),), torch.inf),
            "found": torch.zeros_like(samples.labels, dtype=torch.bool),
            "taken": torch.zeros_like(samples.labels),
            "draw": torch.full_like(samples.labels, attempt * self.steps),
        }
        if self.norm == "linf":
            state |= {"mean": torch.zeros_like(samples.images), "spread": torch.zeros_like(samples.images)}
        return state

    def step(self, samples: Samples, state: State, oracle: Oracle) -> Trial:
        """One look; the ball first, then the point; at the end of a descent, a new start."""
        seen = state["moved"]
        look, gradient = oracle.gradient(seen, samples)
        change = seen - samples.images
        distances = norms(change) if self.norm == "l2" else change.abs().flatten(1).amax(dim=1)
        success = succeeds(samples, look)
        state["nearest"] = torch.where(success, torch.minimum(state["nearest"], distances), state["nearest"])
        slopes = (norms(gradient) if self.norm == "l2" else gradient.abs().flatten(1).sum(dim=1)).clamp_min_(LEAST_NORM)
        share = cosine(state["taken"], self._length).to(seen.dtype)
        self._follow(state, success, distances, look.values.to(seen.dtype) / slopes, share)
        state["moved"] = self._move(state, samples, change, gradient, self.step_size * (0.01 + 0.99 * share))
        state["taken"] = state["taken"] + 1
        finished = state["taken"] >= self.steps
        ended = (state["taken"] % self._length == 0) & (state["taken"] < self._length * self.descents)
        again = (ended | ((slopes <= LEAST_NORM) & ~success)) & ~finished  # without a gradient, try elsewhere
        if bool(again.any()):
            state["radius"] = torch.where(again & state["nearest"].isfinite(), state["nearest"], state["radius"])
            start_again(state, samples, again, state["radius"], self.norm, self.bounds, "fmn-start", self.seed)
        return Trial(seen, look.predictions, distances, finished)

    def final(self, state: State) -> None:
        """The last image lies within a hundredth of a step of one that was looked at."""

    @property
    def _length(self) -> int:
        return self.steps // self.descents

    def _follow(
        self, state: State, success: Bool[Tensor, " n"], distances: Tensor, promised: Tensor, share: Tensor
    ) -> None:
        """Grow until a descent's first success, then close in on the boundary from both sides."""
        width = self.bounds[1] - self.bounds[0]
        largest = width if self.norm == "linf" else width * math.sqrt(state["moved"].shape[1:].numel())
        first = promised.mul(_FIRST) if self.zero_is_success else torch.zeros_like(promised)
        first = torch.where(first > 0, first, _LEAST * largest)
        gamma = 0.001 + (self.radius_change - 0.001) * share
        inside = torch.minimum(state["radius"], distances) * (1 - gamma)
        outside = state["radius"] * torch.where(state["found"], 1 + gamma, _GROWTH)
        radius = torch.where(success, inside, outside)
        state["radius"] = torch.where(state["radius"] > 0, radius, first).clamp_max_(largest)
        state["found"] = state["found"] | success

    def _move(
        self, state: State, samples: Samples, change: Tensor, gradient: Tensor, shares: Float[Tensor, " n"]
    ) -> Images:
        """Against the gradient and back into the ball: a unit vector in L2, Adam's step, which is even, in L∞."""
        radii = per_sample(state["radius"])
        lengths = norms(gradient).clamp_min_(LEAST_NORM)
        if self.norm == "l2":
            change.addcmul_(gradient, per_sample(shares * state["radius"] / lengths), value=-1)
            change.mul_(radii / per_sample(norms(change).clamp_min_(LEAST_NORM)))
            return change.add_(samples.images).clamp_(*self.bounds)
        count = (state["taken"] % self._length + 1).to(change.dtype)
        unit = gradient / per_sample(lengths)
        state["mean"].lerp_(unit, 1 - _BETA_1)
        state["spread"].mul_(_BETA_2).addcmul_(unit, unit, value=1 - _BETA_2)
        rates = shares * state["radius"] * (1 - _BETA_2**count).sqrt() / (1 - _BETA_1**count)
        change.addcmul_(state["mean"] / state["spread"].sqrt().add_(1e-30), per_sample(rates), value=-1)
        low, high = self.bounds
        least, most = (samples.images - radii).clamp_min_(low), (samples.images + radii).clamp_max_(high)
        return change.add_(samples.images).clamp_(least, most)
