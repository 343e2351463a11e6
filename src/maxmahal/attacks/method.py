"""The contract between the engine and an attack: an attack is a rule for one step of many independent samples.

Everything an attack remembers is a tensor with one row a sample. The engine can therefore drop the samples that are
done, put new ones in their place and go on: samples of one working batch may stand at different steps.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor

from maxmahal.attacks.oracle import Oracle
from maxmahal.attacks.samples import Samples

State = dict[str, Tensor]


@dataclass(frozen=True)
class Trial:
    """What one step looked at."""

    images: Float[Tensor, "n c h w"]
    predictions: Int[Tensor, " n"]
    scores: Float[Tensor, " n"]
    """Smaller is better among images that succeed equally: the objective, or the distance of a minimum-norm attack."""
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
        """Look once, and move on: changes ``state``, every entry of which has one row a sample."""

    def final(self, state: State) -> Float[Tensor, "n c h w"] | None:
        """Images that the last step made and nobody has looked at yet."""
