"""The contract between the engine and an attack: an attack is a rule for one step of many independent samples.

Everything an attack remembers is a tensor with one row per sample. The engine can therefore drop the samples that are
done, replace them by new ones and continue: samples of one working batch may be at different steps.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from maxmahal.attacks.oracle import Look, Oracle, Samples
from maxmahal.attacks.threats import norms, per_sample
from maxmahal.random import derive, normal, uniform

State = dict[str, Tensor]


@dataclass(frozen=True)
class Trial:
    """The images that one step evaluated."""

    images: Float[Tensor, "n c h w"]
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

    def final(self, state: State) -> Float[Tensor, "n c h w"] | None:
        """Images that the last step made and that the model has not seen yet."""


def succeeds(samples: Samples, look: Look, confidence: float = 0.0) -> Bool[Tensor, " n"]:
    """Whether the prediction is what the attacker wants and, with a confidence, the objective that far down."""
    success = samples.ranks(look.predictions) >= samples.goal
    return success & (look.values <= -confidence) if confidence else success


def cosine(taken: Int[Tensor, " n"], length: int) -> Float[Tensor, " n"]:
    """From 1 at the first step of a descent towards 0 at its end."""
    return 0.5 * (1 + (torch.pi / length * (taken % length)).cos())


def random_points(
    samples: Samples, radii: Float[Tensor, " n"], norm: str, counters: Int[Tensor, " n"], *key: int | str
) -> Float[Tensor, "n c h w"]:
    """Points around the images, not yet clamped: on the L2 sphere or in the L∞ ball of each sample's own radius."""
    ids = derive(samples.ids, counters)
    images = samples.images
    if norm == "linf":
        return images + per_sample(radii) * (2 * uniform(ids, images.shape[1:], *key).to(images.dtype) - 1)
    directions = normal(ids, images.shape[1:], *key).to(images.dtype)
    return images + per_sample(radii / norms(directions).clamp_min(1e-30)) * directions
