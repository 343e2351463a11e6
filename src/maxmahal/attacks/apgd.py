"""Auto-PGD (Croce and Hein 2020): projected descent with momentum that sets its own step sizes.

By the paper, checkpoints are at ⌈p_j · steps⌉ and the first comparison of a run is with its starting point. By its
authors' code, a share of improving steps of exactly ``rho`` halves too, and the first look after a return to the best
point is compared with the look before it.
"""

from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from maxmahal.attacks.checks import check_threat
from maxmahal.attacks.engine import DEFAULT_ENGINE, Case, Engine, LabelSource, run
from maxmahal.attacks.method import State, Trial
from maxmahal.attacks.objectives import MARGIN, Objective, Outputs, zero_is_success
from maxmahal.attacks.oracle import Model, Oracle, Samples
from maxmahal.attacks.result import Result
from maxmahal.attacks.targets import Targets
from maxmahal.attacks.threats import Images, Threat, per_sample
from maxmahal.errors import ArgumentError, check_count

_ALPHA = 0.75  # the share of a step that is gradient; the rest is momentum
# Of runs that are given up: by which share of the first value they have fallen, and how many times their range between
# two checks they are above zero. With adversarial training values fall in ten steps and then vary little. On MMC
# without it they vary, and samples are broken late: with 10 ranges instead of 40 some would be given up.
_LEAST_FALL, _RANGES = 0.05, 40


def apgd(
    model: Model,
    images: Images,
    labels: Int[Tensor, " n"],
    threat: Threat | str | float,
    *,
    objective: Objective = MARGIN,
    steps: int = 100,
    seed: int = 0,
    sample_ids: Int[Tensor, " n"] | None = None,
    targets: Targets = None,
    label_source: LabelSource = "true",
    restarts: int = 1,
    rho: float = 0.75,
    patience: int | None = None,
    engine: Engine = DEFAULT_ENGINE,
) -> Result:
    """Images inside the threat that make ``objective`` small, without a step size to choose.

    Steps start at twice epsilon. At each checkpoint a sample's step is halved, and its search goes on from its best
    point, if no more than the share ``rho`` of the steps since the last one improved the objective, or if the best
    value does not improve at an unchanged step size. Several targets per sample are tried in turn.

    With a ``patience`` a run is given up once it has converged above zero: checked every so many steps, its value must
    have fallen by 5 %, and neither that fall nor 40 times its range since the last check may bring it to zero. Where
    zero is not the objective's boundary, its margins are judged instead.
    """
    threat = check_threat(threat, images)
    if patience is not None:
        check_count("patience", patience)
    method = AutoDescent(threat, steps, seed, rho, patience)
    case = Case(images, labels, seed, sample_ids, targets, label_source)
    return run(method, model, case, objective=objective, engine=engine, restarts=restarts, threat=threat)


@dataclass(frozen=True)
class AutoDescent:
    """A step with momentum whose size each sample halves on its own; ``steps`` gradients, and no other pass."""

    threat: Threat
    steps: int
    seed: int
    rho: float = 0.75
    patience: int | None = None

    def __post_init__(self) -> None:
        check_count("steps", self.steps)
        if not 0 <= self.rho <= 1:
            raise ArgumentError(f"rho must lie in [0, 1], being a share of the steps; got {self.rho}.")

    def begin(self, samples: Samples, attempt: int) -> State:
        """A random point of the threat, which is the best one so far."""
        start = self.threat.random_start(samples.images, samples.ids, "apgd-start", self.seed, attempt)
        ones = start.new_ones(len(samples))
        return {
            "moved": start,
            "previous": start,
            "value": -torch.inf * ones,  # the value of the last look: no first look improves on it
            "improved": torch.zeros_like(samples.labels),
            "best": start,
            "best_gradient": torch.zeros_like(start),
            "best_value": torch.inf * ones,
            "checked_value": torch.inf * ones,
            "halved": torch.zeros_like(samples.labels, dtype=torch.bool),
            "step_size": 2 * self.threat.radius * ones,
            "taken": torch.zeros_like(samples.labels),
            # For the patience: the first value, the smallest, that at the last check, and the largest since then.
            "first": torch.nan * ones,
            "low": torch.inf * ones,
            "low_before": torch.inf * ones,
            "high": -torch.inf * ones,
        }

    def step(self, samples: Samples, state: State, oracle: Oracle) -> Trial:
        """One look; at a checkpoint perhaps back to the best point; one step."""
        seen = state["moved"]
        look, gradient = oracle.gradient(seen, samples)
        values = look.values.to(seen.dtype)
        state["improved"] = state["improved"] + (values < state["value"])
        state["value"] = values
        better = values < state["best_value"]
        state["best"] = torch.where(per_sample(better), seen, state["best"])
        state["best_gradient"] = torch.where(per_sample(better), gradient, state["best_gradient"])
        state["best_value"] = torch.where(better, values, state["best_value"])
        returns = per_sample(self._halve(state))
        here = torch.where(returns, state["best"], seen)
        # The best point's gradient is still known, so going back costs no pass.
        gradient = torch.where(returns, state["best_gradient"], gradient)
        state["moved"] = self._move(samples.images, here, gradient, state)
        state["previous"] = here
        state["taken"] = state["taken"] + 1
        finished = state["taken"] >= self.steps
        if self.patience is not None:
            values = look.values
            if not zero_is_success(oracle.objective):
                values = MARGIN(Outputs(look.logits), samples.avoided, samples.targets)
            finished = finished | self._gives_up(state, values.to(seen.dtype), self.patience)
        return Trial(seen, look.predictions, look.values, finished)

    def _gives_up(self, state: State, values: Float[Tensor, " n"], patience: int) -> Bool[Tensor, " n"]:
        """Whose value has fallen, and neither its fall nor its range since the last check would bring it to zero."""
        low, high = torch.minimum(state["low"], values), torch.maximum(state["high"], values)
        first = torch.where(state["taken"] == 1, values, state["first"])
        checks = state["taken"] % patience == 0
        fall = (self.steps - state["taken"]) / patience * (state["low_before"] - low)  # infinite at the first check
        stays = (low > fall + _RANGES * (high - low)) & (low <= (1 - _LEAST_FALL) * first)
        state["first"], state["low"] = first, low
        state["low_before"] = torch.where(checks, low, state["low_before"])
        state["high"] = torch.where(checks, -torch.inf, high)
        return checks & stays

    def final(self, state: State) -> Images:
        """Where the last step led."""
        return state["moved"]

    def _halve(self, state: State) -> Bool[Tensor, " n"]:
        """Whose step is halved now: never outside a checkpoint."""
        window = torch.tensor(_windows(self.steps), device=state["taken"].device)[state["taken"]]
        checks = window > 0
        oscillates = state["improved"] <= self.rho * window
        stands_still = ~state["halved"] & (state["best_value"] >= state["checked_value"])
        halves = checks & (oscillates | stands_still)
        state["step_size"] = torch.where(halves, state["step_size"] / 2, state["step_size"])
        state["halved"] = torch.where(checks, halves, state["halved"])
        state["checked_value"] = torch.where(checks, state["best_value"], state["checked_value"])
        state["improved"] = torch.where(checks, 0, state["improved"])
        return halves

    def _move(self, images: Tensor, here: Tensor, gradient: Tensor, state: State) -> Images:
        """α of a projected gradient step and 1 - α of the last move; the first step has no last move."""
        aim = self.threat.project(images, self.threat.descend(here, gradient, state["step_size"]))
        alpha = per_sample(torch.where(state["taken"] > 0, _ALPHA, 1.0).to(here.dtype))
        return self.threat.project(images, here + alpha * (aim - here) + (1 - alpha) * (here - state["previous"]))


@cache
def _windows(steps: int) -> tuple[int, ...]:
    """For each step the number of steps since the checkpoint before, where it is one, and 0 elsewhere.

    Checkpoints are ⌈p_j · steps⌉ with p_0 = 0, p_1 = 0.22, p_{j+1} = p_j + max(p_j - p_{j-1} - 0.03, 0.06).
    """
    windows = [0] * (steps + 1)
    last, percent, width = 0, 22, 22
    while percent < 100:
        checkpoint = -(-percent * steps // 100)
        windows[checkpoint] = max(checkpoint - last, windows[checkpoint])
        last, width = checkpoint, max(width - 3, 6)
        percent += width
    return tuple(windows)
