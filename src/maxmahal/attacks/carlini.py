"""Carlini and Wagner's L2 attack (2017): the smallest distance that still fools, by a search on the weight of the loss.

Every sample searches on its own: it gives up on a constant, and takes up its next one, without waiting for others.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from maxmahal.attacks.checks import check_count, check_positive
from maxmahal.attacks.engine import DEFAULT_ENGINE, Case, Engine, LabelSource, run
from maxmahal.attacks.method import State, Trial
from maxmahal.attacks.objectives import Objective, margin, zero_is_success
from maxmahal.attacks.oracle import Model, Oracle
from maxmahal.attacks.result import Nearest
from maxmahal.attacks.samples import Samples
from maxmahal.attacks.targets import Targets
from maxmahal.attacks.threats import UNIT, Bounds, norms, per_sample
from maxmahal.errors import ArgumentError

_BETA_1, _BETA_2 = 0.9, 0.999  # Adam's
_INSIDE = 1 - 1e-6  # pixels at the very bounds would lie at infinity
_PROGRESS = 1e-4  # a loss that has not fallen by this share has stopped
_GROWTH = 10.0  # of the constant while nothing was found


def carlini_wagner(
    model: Model,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    *,
    objective: Objective | None = None,
    steps: int = 1000,
    search_steps: int = 9,
    learning_rate: float = 0.005,
    initial_c: float = 0.01,
    confidence: float = 0.0,
    warm_start: bool = True,
    seed: int = 0,
    sample_ids: Int[Tensor, " n"] | None = None,
    targets: Targets = None,
    label_source: LabelSource = "true",
    bounds: Bounds = UNIT,
    engine: Engine = DEFAULT_ENGINE,
) -> Nearest:
    """The nearest successful image in L2 of every sample: minimises ‖x' - x‖² + c·max(objective + confidence, 0).

    The objective is the margin unless another is given; one whose zero is not its threshold of success goes unclamped.
    Success is judged by the prediction alone, and with ``confidence`` also by the objective. The defaults are the
    paper's (Sec. 4.4). Each constant after the first starts from the nearest success so far, or from where the last one
    ended; ``warm_start=False`` starts each from the image, as the original code does: slower, and no nearer. ``seed``
    matters only for random targets.
    """
    chosen = margin() if objective is None else objective
    if confidence and not zero_is_success(chosen):
        raise ArgumentError("confidence needs an objective whose zero is its threshold, such as margin(); use 0.")
    method = BinarySearch(
        steps, search_steps, learning_rate, initial_c, confidence, zero_is_success(chosen), warm_start, bounds
    )
    found = run(
        method,
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
class BinarySearch:
    """Adam on x' = tanh(w), scaled to the bounds, for one constant after the other."""

    steps_each: int
    search_steps: int
    learning_rate: float
    initial_c: float
    confidence: float
    clamps: bool
    warm_start: bool
    bounds: Bounds

    def __post_init__(self) -> None:
        check_count("steps", self.steps_each)
        check_count("search_steps", self.search_steps)
        check_positive("learning_rate", self.learning_rate)
        check_positive("initial_c", self.initial_c)
        if not self.confidence >= 0:
            raise ArgumentError(f"confidence must not be negative; got {self.confidence}.")

    @property
    def steps(self) -> int:
        """The most steps a sample takes."""
        return self.steps_each * self.search_steps

    def begin(self, samples: Samples, attempt: int) -> State:  # noqa: ARG002
        """At the image, with the first constant and nothing known."""
        low, high = self.bounds
        point = (((samples.images - low) / (high - low) * 2 - 1) * _INSIDE).atanh()
        numbers = point.new_zeros(len(samples))
        return {
            "point": point,
            "moved": self._image(point),
            "start": point,
            "mean": torch.zeros_like(point),
            "square": torch.zeros_like(point),
            "taken": torch.zeros_like(samples.labels),
            "constants": torch.zeros_like(samples.labels),
            "c": numbers + self.initial_c,
            "low": numbers,
            "high": numbers + torch.inf,
            "found": torch.zeros_like(samples.labels, dtype=torch.bool),
            "last_loss": numbers + torch.inf,
            "nearest": numbers + torch.inf,
        }

    def step(self, samples: Samples, state: State, oracle: Oracle) -> Trial:
        """One look, one step of Adam; a sample that is done with its constant takes up the next."""
        seen = state["moved"]
        look, gradient = oracle.gradient(seen, samples)
        change = seen - samples.images
        distances = norms(change)
        success = samples.ranks(look.predictions) >= samples.goal
        pushing = look.values + self.confidence
        if self.clamps and self.confidence:
            success &= pushing <= 0
        # Towards a target a third class may lead after the label has lost to it: the push ends with success alone.
        pushes = (pushing > 0) | ~success if self.clamps else torch.ones_like(success)
        weight = state["c"] * pushes
        loss = distances.square() + weight * pushing
        self._remember(state, success, distances)
        self._descend(state, seen, 2 * change + per_sample(weight.to(seen.dtype)) * gradient)
        done = self._is_done(state, loss)
        if bool(done.any()):
            self._next_constant(state, done)
        state["moved"] = self._image(state["point"])
        finished = done & (state["constants"] >= self.search_steps)
        # With a confidence, being misclassified is not enough: what does not count is offered as the label itself.
        counted = torch.where(success, look.predictions, samples.labels) if self.confidence else look.predictions
        return Trial(seen, counted, distances, finished)

    def final(self, state: State) -> None:
        """Every step's image has been looked at but the last, which is one of thousands."""

    def _image(self, point: Tensor) -> Float[Tensor, "n c h w"]:
        low, high = self.bounds
        return (point.tanh() / _INSIDE).add_(1).mul_(0.5 * (high - low)).add_(low).clamp_(low, high)

    def _remember(self, state: State, success: Bool[Tensor, " n"], distances: Float[Tensor, " n"]) -> None:
        nearer = success & (distances < state["nearest"])
        state["found"] = state["found"] | (nearer if self.warm_start else success)
        state["nearest"] = torch.where(nearer, distances, state["nearest"])
        if self.warm_start:
            state["start"] = torch.where(per_sample(nearer), state["point"], state["start"])

    def _descend(self, state: State, seen: Tensor, gradient: Float[Tensor, "n c h w"]) -> None:
        """One step of Adam whose bias correction counts each sample's own steps."""
        low, high = self.bounds
        gradient = gradient * ((seen - low) * (high - seen) * (2 / (high - low)))  # dx'/dw
        state["taken"] = state["taken"] + 1
        count = state["taken"].to(seen.dtype)
        state["mean"] = state["mean"].mul(_BETA_1).add_(gradient, alpha=1 - _BETA_1)
        state["square"] = state["square"].mul(_BETA_2).addcmul_(gradient, gradient, value=1 - _BETA_2)
        rate = per_sample(self.learning_rate / (1 - _BETA_1**count))
        root = state["square"].sqrt().mul_(per_sample((1 - _BETA_2**count).rsqrt())).add_(1e-8)
        state["point"] = state["point"] - rate * state["mean"] / root

    def _is_done(self, state: State, loss: Float[Tensor, " n"]) -> Bool[Tensor, " n"]:
        """All steps taken, or no progress over a tenth of them."""
        checks = (state["taken"] - 1) % max(self.steps_each // 10, 1) == 0
        stands = checks & (loss > state["last_loss"] * (1 - _PROGRESS))
        state["last_loss"] = torch.where(checks, loss.to(state["last_loss"].dtype), state["last_loss"])
        return stands | (state["taken"] >= self.steps_each)

    def _next_constant(self, state: State, done: Bool[Tensor, " n"]) -> None:
        """A smaller constant after a success, a larger one after a failure, and a fresh start."""
        c, found = state["c"], state["found"]
        state["high"] = torch.where(done & found, torch.minimum(state["high"], c), state["high"])
        state["low"] = torch.where(done & ~found, torch.maximum(state["low"], c), state["low"])
        grown = torch.where(state["high"].isfinite(), (state["low"] + state["high"]) / 2, c * _GROWTH)
        state["c"] = torch.where(done, grown, c)
        state["constants"] = state["constants"] + done
        if self.warm_start:
            anywhere = done & ~state["nearest"].isfinite()
            restart = torch.where(per_sample(anywhere), state["point"], state["start"])
        else:
            restart = state["start"]
        fresh = per_sample(done)
        state["point"] = torch.where(fresh, restart, state["point"])
        state["mean"], state["square"] = state["mean"] * ~fresh, state["square"] * ~fresh
        state["taken"] = state["taken"] * ~done
        state["found"] = found & ~done
        state["last_loss"] = torch.where(done, torch.inf, state["last_loss"])
