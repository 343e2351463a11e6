"""What an attack cost: in all, and sample by sample."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

Kind = Literal["iterations", "asked", "judged", "backward"]


@dataclass
class Passes:
    """What an attack cost, in images."""

    forward: int = 0
    """Images that went through a model, the confirmations of successes included."""
    backward: int = 0
    """Images whose gradient was taken."""
    queries: int = 0
    """Images that the search itself asked about: what a black-box attacker would pay for."""


@dataclass(frozen=True)
class Spent:
    """What each sample cost; summed over the samples, its passes are ``Passes``."""

    iterations: Int[Tensor, " n"]
    """Steps of the attack over all restarts and targets; 0 for a sample that was broken before the first."""
    forward: Int[Tensor, " n"]
    backward: Int[Tensor, " n"]
    queries: Int[Tensor, " n"]


class Tally:
    """Counts what each sample costs where the images are: nothing is read back from the device on the way."""

    def __init__(self, samples: int, device: torch.device) -> None:
        self._counts: dict[Kind, Tensor] = {
            kind: torch.zeros(samples, dtype=torch.int64, device=device)
            for kind in ("iterations", "asked", "judged", "backward")
        }
        self._lost = torch.zeros(samples, dtype=torch.int64, device=device)

    def add(self, kind: Kind, rows: Int[Tensor, " m"], times: int = 1) -> None:
        """``times`` more for each of these rows, among which a sample may stand more than once."""
        self._counts[kind].index_add_(0, rows, torch.full_like(rows, times))

    def add_lost(self, rows: Int[Tensor, " m"], lost: Bool[Tensor, " m"]) -> None:
        """One more for each of these rows about which a look said nothing."""
        self._lost.index_add_(0, rows, lost.long())

    def lost(self) -> Int[Tensor, " n"]:
        """How many looks at each sample gave an objective or a gradient that is not finite."""
        return self._lost.clone()

    def spent(self) -> Spent:
        """The counts so far; verdicts are no queries."""
        counts = {kind: count.clone() for kind, count in self._counts.items()}
        asked = counts["asked"]
        return Spent(counts["iterations"], asked + counts["judged"], counts["backward"], asked)
