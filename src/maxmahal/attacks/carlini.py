"""Carlini and Wagner's L2 attack (2017): the smallest distance that still fools, by weighing a distance and a loss."""

import math
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from maxmahal.attacks.checks import check_positive
from maxmahal.attacks.engine import DEFAULT_ENGINE, Case, Engine, LabelSource, run
from maxmahal.attacks.method import Method, State, Trial, cosine, start_again, succeeds
from maxmahal.attacks.objectives import MARGIN_OVER_ALL, Objective, zero_is_success
from maxmahal.attacks.oracle import Model, Oracle, Samples
from maxmahal.attacks.result import Nearest
from maxmahal.attacks.targets import Targets
from maxmahal.attacks.threats import LEAST_NORM, UNIT, Bounds, Images, check_bounds, norms, per_sample
from maxmahal.errors import ArgumentError, check_choice, check_count

# Of the binary search over constants:
_BETA_1, _BETA_2 = 0.9, 0.999  # Adam's
_INSIDE = 1 - 1e-6  # pixels at the very bounds would lie at infinity
_PROGRESS = 1e-4  # a loss that has not fallen by this share has stopped
_GROWTH = 10.0  # of the constant while nothing was found
# Of constants that are tracked:
_SHORT_BETA_1, _SHORT_BETA_2 = 0.8, 0.99  # Adam's, with a shorter memory than usual because descents are short
_ABOVE = 1.5  # times the best constant: more than 1, or the descent would stop short of the boundary
_BOLDER = 100.0  # times that by the end of a descent without success, where two classes pull against each other
_LEAST = 1e-3  # of the largest distance there is: the first step where the objective tells nothing about distance


def carlini_wagner(
    model: Model,
    images: Images,
    labels: Int[Tensor, " n"],
    *,
    objective: Objective = MARGIN_OVER_ALL,
    constants: Literal["tracked", "binary"] = "tracked",
    steps: int = 1000,
    search_steps: int = 9,
    learning_rate: float = 0.005,
    initial_c: float = 0.01,
    confidence: float = 0.0,
    abort_early: bool = True,
    seed: int = 0,
    sample_ids: Int[Tensor, " n"] | None = None,
    targets: Targets = None,
    label_source: LabelSource = "true",
    bounds: Bounds = UNIT,
    engine: Engine = DEFAULT_ENGINE,
) -> Nearest:
    """The nearest successful image in L2 of every sample: minimises ‖x' - x‖² + c·max(objective + confidence, 0).

    ``constants="binary"`` is the original attack, and its defaults the paper's (Sec. 4.4): a binary search over c, each
    c descended from the image anew through a tanh. ``"tracked"`` needs a thirtieth of its passes and comes as near: c
    follows the value that its own optimum asks for, in a third as many descents as ``search_steps``, each a tenth as
    long as ``steps`` but no shorter than 50. It uses ``seed``; ``learning_rate``, ``initial_c`` and ``abort_early`` are
    the binary search's. Success is judged by the prediction and, with ``confidence``, by the objective too.
    """
    check_choice("constants", constants, ("tracked", "binary"))
    check_count("steps", steps)
    check_count("search_steps", search_steps)
    check_positive("learning_rate", learning_rate)
    check_positive("initial_c", initial_c)
    check_bounds(bounds)
    if not 0 <= confidence < torch.inf:
        raise ArgumentError(f"confidence must not be negative; got {confidence}.")
    if confidence and not zero_is_success(objective):
        raise ArgumentError("confidence needs an objective whose zero is its threshold, such as margin(); use 0.")
    method: Method
    if constants == "binary":
        method = BinarySearch(
            steps, search_steps, learning_rate, initial_c, confidence, abort_early, zero_is_success(objective), bounds
        )
    else:
        length, descents = min(steps, max(50, steps // 10)), -(-search_steps // 3)
        method = Tracking(length, descents, confidence, zero_is_success(objective), seed, bounds)
    case = Case(images, labels, seed, sample_ids, targets, label_source)
    options: dict[str, Any] = {"keep": "nearest", "bounds": bounds, "confidence": confidence}
    found = run(method, model, case, objective=objective, engine=engine, **options)
    return cast(Nearest, found)


@dataclass(frozen=True)
class BinarySearch:
    """Adam on x' = tanh(w), scaled to the bounds, for one constant after the other."""

    steps_each: int
    search_steps: int
    learning_rate: float
    initial_c: float
    confidence: float
    abort_early: bool
    zero_is_success: bool
    bounds: Bounds

    @property
    def steps(self) -> int:
        """The most steps a sample takes."""
        return self.steps_each * self.search_steps

    def begin(self, samples: Samples, attempt: int) -> State:  # noqa: ARG002
        """At the image, with the first constant and nothing known."""
        point = self._start(samples)
        count = len(samples)
        return {
            "point": point,
            "moved": self._image(point),
            "mean": torch.zeros_like(point),
            "spread": torch.zeros_like(point),
            "taken": torch.zeros_like(samples.labels),
            "tried": torch.zeros_like(samples.labels),
            "c": point.new_full((count,), self.initial_c),
            "low": point.new_zeros(count),
            "high": point.new_full((count,), torch.inf),
            "found": torch.zeros_like(samples.labels, dtype=torch.bool),
            "last_loss": point.new_full((count,), torch.inf),
        }

    def step(self, samples: Samples, state: State, oracle: Oracle) -> Trial:
        """One look, one step of Adam; a sample that is done with its constant continues with the next."""
        seen = state["moved"]
        look, gradient = oracle.gradient(seen, samples)
        change = seen - samples.images
        distances = norms(change)
        success = succeeds(samples, look, self.confidence)
        state["found"] = state["found"] | success
        # The clamp of the loss: a success is pushed no further. It must not clamp at zero alone, because towards a
        # target the margin between two classes can be below zero while a third wins.
        weights = torch.where(success, 0.0, state["c"]) if self.zero_is_success else state["c"]
        losses = distances.square() + weights * (look.values.to(seen.dtype) + self.confidence)
        self._descend(state, seen, change.mul_(2).addcmul_(per_sample(weights), gradient))
        done = self._is_done(state, losses)
        if bool(done.any()):
            self._next_constant(samples, state, done)
        state["moved"] = self._image(state["point"])
        scores = torch.where(success, distances, torch.inf)
        return Trial(seen, look.predictions, scores, done & (state["tried"] >= self.search_steps))

    def final(self, state: State) -> None:
        """Every step's image has been looked at but the last, which is one of thousands."""

    def _start(self, samples: Samples) -> Tensor:
        low, high = self.bounds
        unit = (samples.images - low).mul_(2 / (high - low)).sub_(1).mul_(_INSIDE)
        # By the logarithm, because torch's atanh rounds a number differently in different batches.
        return ((1 + unit) / (1 - unit)).log_().mul_(0.5)

    def _image(self, point: Tensor) -> Images:
        low, high = self.bounds
        return point.tanh().add_(1).mul_(0.5 * (high - low)).add_(low).clamp_(low, high)

    def _descend(self, state: State, seen: Tensor, gradient: Images) -> None:
        """One step of Adam whose bias correction counts each sample's own steps."""
        low, high = self.bounds
        gradient.mul_((seen - low).mul_(high - seen)).mul_(2 / (high - low))  # dx'/dw
        state["taken"] = state["taken"] + 1
        count = state["taken"].to(seen.dtype)
        state["mean"].lerp_(gradient, 1 - _BETA_1)
        state["spread"].mul_(_BETA_2).addcmul_(gradient, gradient, value=1 - _BETA_2)
        root = state["spread"].sqrt().mul_(per_sample((1 - _BETA_2**count).rsqrt())).add_(1e-8)
        rates = self.learning_rate / (1 - _BETA_1**count)
        state["point"].addcmul_(per_sample(rates), torch.div(state["mean"], root, out=root), value=-1)

    def _is_done(self, state: State, losses: Float[Tensor, " n"]) -> Bool[Tensor, " n"]:
        """All steps taken, or no progress over a tenth of them."""
        full = state["taken"] >= self.steps_each
        if not self.abort_early:
            return full
        checks = (state["taken"] - 1) % max(self.steps_each // 10, 1) == 0
        stands = losses > state["last_loss"] - _PROGRESS * state["last_loss"].abs()
        stands &= state["last_loss"].isfinite()
        state["last_loss"] = torch.where(checks, losses, state["last_loss"])
        return full | (checks & stands)

    def _next_constant(self, samples: Samples, state: State, done: Bool[Tensor, " n"]) -> None:
        """A smaller constant after a success, a larger one after a failure, and a fresh start."""
        c, found = state["c"], state["found"]
        state["high"] = torch.where(done & found, torch.minimum(state["high"], c), state["high"])
        state["low"] = torch.where(done & ~found, torch.maximum(state["low"], c), state["low"])
        next_c = torch.where(state["high"].isfinite(), (state["low"] + state["high"]) / 2, c * _GROWTH)
        state["c"] = torch.where(done, next_c, c)
        state["tried"] = state["tried"] + done
        state["taken"] = state["taken"].masked_fill(done, 0)
        state["found"] = found & ~done
        state["last_loss"] = state["last_loss"].masked_fill(done, torch.inf)
        rows = done.nonzero().squeeze(1)
        state["point"][rows] = self._start(samples.select(rows))
        state["mean"][rows], state["spread"][rows] = 0.0, 0.0


@dataclass(frozen=True)
class Tracking:
    """A descent of Adam from the image and others from random points, with steps in proportion to the distance.

    On the decision boundary the gradients of ‖x' - x‖² and of c times the objective cancel out at the optimum, so that
    c = 2‖x' - x‖ / ‖∇objective‖ over the pixels that no bound holds; a c a little above that settles on the boundary.
    """

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
        # Only over the pixels that can still follow the gradient: those held by a bound balance nothing.
        low, high = self.bounds
        held = ((seen <= low) & (gradient > 0)).logical_or_((seen >= high) & (gradient < 0))
        slopes = norms(gradient.masked_fill(held, 0.0)).clamp_min_(LEAST_NORM)
        reach = self._reach(look.values.to(seen.dtype), slopes, distances, seen.shape[1:].numel())
        progress = (state["taken"] % self.steps_each).to(seen.dtype) / self.steps_each
        factors = torch.where(state["found"], _ABOVE, _ABOVE * _BOLDER**progress)  # by which it exceeds its best value
        constants = torch.where(success, 0.0, 2 * factors * reach / slopes)
        state["moved"] = self._descend(state, seen, change.mul_(2).addcmul_(per_sample(constants), gradient), reach)
        state["taken"] = state["taken"] + 1
        finished = state["taken"] >= self.steps
        lost = (slopes <= LEAST_NORM) & ~success  # without a gradient, try elsewhere
        again = (lost | (state["taken"] % self.steps_each == 0)) & ~finished
        if bool(again.any()):
            start_again(state, samples, again, 2 * reach, "l2", self.bounds, "carlini-start", self.seed)
        return Trial(seen, look.predictions, torch.where(success, distances, torch.inf), finished)

    def final(self, state: State) -> None:
        """The last image lies within a hundredth of a step of one that was looked at."""

    def _reach(self, values: Tensor, slopes: Tensor, distances: Tensor, pixels: int) -> Float[Tensor, " n"]:
        """How far the boundary seems to be from the original image, taking the objective for linear from here on."""
        largest = (self.bounds[1] - self.bounds[0]) * math.sqrt(pixels)
        here = distances.clamp_min(_LEAST * largest)
        if not self.zero_is_success:
            return here
        missing = values + self.confidence
        known = (missing > 0) & (slopes > LEAST_NORM)
        return torch.where(known, distances + missing / slopes, here).clamp_max_(largest)

    def _descend(self, state: State, seen: Tensor, gradient: Images, reach: Float[Tensor, " n"]) -> Images:
        """One step of Adam: each pixel moves by its share of the distance at first, a hundredth of it at the end."""
        count = (state["taken"] % self.steps_each + 1).to(seen.dtype)
        state["mean"].lerp_(gradient, 1 - _SHORT_BETA_1)
        state["spread"].mul_(_SHORT_BETA_2).addcmul_(gradient, gradient, value=1 - _SHORT_BETA_2)
        share = 0.01 + 0.99 * cosine(state["taken"], self.steps_each).to(seen.dtype)
        corrected = (1 - _SHORT_BETA_2**count).sqrt() / (1 - _SHORT_BETA_1**count)
        rates = torch.minimum(reach, state["nearest"]) * share * corrected / math.sqrt(seen.shape[1:].numel())
        step = state["mean"] / state["spread"].sqrt().add_(1e-30)
        return torch.addcmul(seen, per_sample(rates), step, value=-1).clamp_(*self.bounds)
