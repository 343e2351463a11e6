"""The contract between the engine and an attack: an attack is a rule for one step of many independent samples.

What it remembers are tensors with one row per sample: samples of one working batch may be at different steps.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from maxmahal.attacks.oracle import Look, Oracle, Samples
from maxmahal.attacks.threats import LEAST_NORM, Bounds, Images, norms, per_sample
from maxmahal.random import derive, normal, uniform

State = dict[str, Tensor]


@dataclass(frozen=True)
class Trial:
    """The images that one step evaluated."""

    images: Images
    predictions: Int[Tensor, " n"]
    scores: Float[Tensor, " n"]
    """Smaller is better among images that succeed equally: the objective, or the distance of a minimum-norm attack,
    which is infinite where the image does not count as a success."""
    finished: Bool[Tensor, " n"]
    """Samples for which the attack has nothing left to do, successful or not."""


@runtime_checkable
class Method(Protocol):
    """One attack, its settings inside."""

    @property
    def steps(self) -> int:
        """The most steps a sample takes."""

    def begin(self, samples: Samples, attempt: int) -> State:
        """The state of new samples; ``attempt`` numbers the random restarts and the targets tried in turn."""

    def step(self, samples: Samples, state: State, oracle: Oracle) -> Trial:
        """Look once, and move on: changes ``state``, every entry of which has one row per sample."""

    def final(self, state: State) -> Images | None:
        """Images that the last step made and that the model has not seen yet."""


def succeeds(samples: Samples, look: Look, confidence: float = 0.0) -> Bool[Tensor, " n"]:
    """Whether the prediction is what the attacker wants and, with a confidence, the objective that far down."""
    success = samples.ranks(look.predictions) >= samples.goal
    return success & (look.values <= -confidence) if confidence else success


def cosine(taken: Int[Tensor, " n"], length: int) -> Float[Tensor, " n"]:
    """From 1 at the first step of a descent towards 0 at its end."""
    return 0.5 * (1 + (torch.pi / length * (taken % length)).cos())


def start_again(
    state: State,
    samples: Samples,
    again: Bool[Tensor, " n"],
    radii: Float[Tensor, " n"],
    norm: str,
    bounds: Bounds,
    *key: int | str,
) -> None:
    """Put some samples on the L2 sphere, or into the L∞ ball, as far as their nearest success, or of these radii."""
    rows = again.nonzero().squeeze(1)
    images, ids = samples.images[rows], derive(samples.ids[rows], (state["draw"] + state["taken"])[rows])
    radii = torch.where(state["nearest"].isfinite(), state["nearest"], radii)[rows]
    if norm == "linf":
        points = images + per_sample(radii) * (2 * uniform(ids, images.shape[1:], *key).to(images.dtype) - 1)
    else:
        directions = normal(ids, images.shape[1:], *key).to(images.dtype)
        points = images + per_sample(radii / norms(directions).clamp_min(LEAST_NORM)) * directions
    state["moved"][rows], state["found"][rows] = points.clamp_(*bounds), False
    for name in state.keys() & {"mean", "spread"}:
        state[name][rows] = 0.0
