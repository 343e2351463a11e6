"""Carlini and Wagner's loss with a constant that follows its best value instead of being searched for.

Where ‖x' - x‖² is smallest on the decision boundary its gradient and c times the objective's cancel out, so that
c = 2‖x' - x‖ / ‖∇objective‖ over the pixels that no bound holds. With c a little above that at every step, one descent
settles on the boundary.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.attacks.checks import check_count
from maxmahal.attacks.descents import cosine, random_points, succeeds
from maxmahal.attacks.method import State, Trial
from maxmahal.attacks.oracle import Oracle
from maxmahal.attacks.samples import Samples
from maxmahal.attacks.threats import Bounds, norms, per_sample

_BETA_1, _BETA_2 = 0.8, 0.99  # Adam's, with a shorter memory than usual because descents are short
_ABOVE = 1.5  # times the best constant: more than 1, or the descent would stop short of the boundary
_BOLDER = 100.0  # times that by the end of a descent without success, where two classes pull against each other
_LEAST = 1e-3  # of the largest distance there is: the first step where the objective tells nothing about distance


@dataclass(frozen=True)
class Tracking:
    """A descent of Adam from the image and others from random points, with steps in proportion to the distance."""

    steps_each: int
    descents: int
    confidence: float
    zero_is_success: bool
    seed: int
    bounds: Bounds

    def __post_init__(self) -> None:
        check_count("steps", self.steps_each)
        check_count("descents", self.descents)

    @property
    def steps(self) -> int:
        """All steps of all descents."""
        return self.steps_each * self.descents

    def begin(self, samples: Samples, attempt: int) -> State:
        """At the image, with nothing found."""
        return {
            "moved": samples.images,
            "mean": torch.zeros_like(samples.images),
            "spread": torch.zeros_like(samples.images),
            "nearest": samples.images.new_full((len(samples),), torch.inf),
            "found": torch.zeros_like(samples.labels, dtype=torch.bool),
            "taken": torch.zeros_like(samples.labels),
            "draw": torch.full_like(samples.labels, attempt * self.steps),
        }

    def step(self, samples: Samples, state: State, oracle: Oracle) -> Trial:
        """One look, one step of Adam; at the end of a descent, a new start."""
        seen = state["moved"]
        look, gradient = oracle.gradient(seen, samples)
        change = seen - samples.images
        distances = norms(change)
        success = succeeds(samples, look, self.confidence)
        state["nearest"] = torch.where(success, torch.minimum(state["nearest"], distances), state["nearest"])
        state["found"] = state["found"] | success
        slopes = self._free_slopes(seen, gradient)
        reach = self._reach(look.values.to(seen.dtype), slopes, distances, self._largest(seen))
        constants = torch.where(success, 0.0, 2 * self._factors(state) * reach / slopes)
        state["moved"] = self._descend(state, seen, change.mul_(2).addcmul_(per_sample(constants), gradient), reach)
        state["taken"] = state["taken"] + 1
        finished = state["taken"] >= self.steps
        lost = (slopes <= 1e-30) & ~success  # without a gradient, try elsewhere
        again = (lost | (state["taken"] % self.steps_each == 0)) & ~finished
        if bool(again.any()):
            self._start_again(samples, state, reach, again.nonzero().squeeze(1))
        # What does not count as a success is offered as the label itself.
        return Trial(seen, torch.where(success, look.predictions, samples.labels), distances, finished)

    def final(self, state: State) -> None:
        """The last image lies within a hundredth of a step of one that was looked at."""

    def _largest(self, images: Float[Tensor, "n c h w"]) -> float:
        return (self.bounds[1] - self.bounds[0]) * math.sqrt(images.shape[1:].numel())

    def _free_slopes(self, seen: Tensor, gradient: Float[Tensor, "n c h w"]) -> Float[Tensor, " n"]:
        """The gradient's length over the pixels that can still follow it: those held by a bound balance nothing."""
        low, high = self.bounds
        held = ((seen <= low) & (gradient > 0)).logical_or_((seen >= high) & (gradient < 0))
        return norms(gradient.masked_fill(held, 0.0)).clamp_min_(1e-30)

    def _reach(self, values: Tensor, slopes: Tensor, distances: Tensor, largest: float) -> Float[Tensor, " n"]:
        """How far the boundary seems to be from the original image, taking the objective for linear from here on."""
        here = distances.clamp_min(_LEAST * largest)
        if not self.zero_is_success:
            return here
        missing = values + self.confidence
        return torch.where((missing > 0) & (slopes > 1e-30), distances + missing / slopes, here).clamp_max_(largest)

    def _factors(self, state: State) -> Float[Tensor, " n"]:
        """By how much each constant exceeds its best value."""
        progress = (state["taken"] % self.steps_each).to(state["nearest"].dtype) / self.steps_each
        return torch.where(state["found"], _ABOVE, _ABOVE * _BOLDER**progress)

    def _descend(
        self, state: State, seen: Tensor, gradient: Float[Tensor, "n c h w"], reach: Float[Tensor, " n"]
    ) -> Float[Tensor, "n c h w"]:
        """One step of Adam: each pixel moves by its share of the distance at first, a hundredth of it at the end."""
        count = (state["taken"] % self.steps_each + 1).to(seen.dtype)
        state["mean"].lerp_(gradient, 1 - _BETA_1)
        state["spread"].mul_(_BETA_2).addcmul_(gradient, gradient, value=1 - _BETA_2)
        share = 0.01 + 0.99 * cosine(state["taken"], self.steps_each).to(seen.dtype)
        corrected = (1 - _BETA_2**count).sqrt() / (1 - _BETA_1**count)
        rates = torch.minimum(reach, state["nearest"]) * share * corrected / math.sqrt(seen.shape[1:].numel())
        step = state["mean"] / state["spread"].sqrt().add_(1e-30)
        return torch.addcmul(seen, per_sample(rates), step, value=-1).clamp_(*self.bounds)

    def _start_again(self, samples: Samples, state: State, reach: Float[Tensor, " n"], rows: Int[Tensor, " m"]) -> None:
        """From a random point as far away as the nearest success, or as far as the boundary seems to be."""
        radii = torch.where(state["nearest"].isfinite(), state["nearest"], 2 * reach)[rows]
        counters = (state["draw"] + state["taken"])[rows]
        points = random_points(samples.select(rows), radii, "l2", counters, "carlini-start", self.seed)
        state["moved"][rows] = points.clamp_(*self.bounds)
        state["mean"][rows], state["spread"][rows] = 0.0, 0.0
        state["found"][rows] = False
