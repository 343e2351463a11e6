"""What an attack found, and what it cost, sample by sample."""

import math
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from maxmahal.attacks.threats import Images, Threat

Kind = Literal["iterations", "asked", "judged", "backward"]


@dataclass
class Passes:
    """What an attack cost, in images."""

    forward: int = 0
    """Images that went through a model, the confirmations of successes included."""
    backward: int = 0
    """Images whose gradient was taken."""
    queries: int = 0
    """Images that the search itself asked about: the cost of a black-box attack."""

    @property
    def total(self) -> int:
        """Forward and backward passes."""
        return self.forward + self.backward


@dataclass(frozen=True)
class Spent:
    """What each sample cost; summed over the samples, its passes are ``Passes``."""

    iterations: Int[Tensor, " n"]
    """Steps of the attack over all restarts and targets; 0 for a sample that was broken before the first."""
    forward: Int[Tensor, " n"]
    backward: Int[Tensor, " n"]
    queries: Int[Tensor, " n"]


class Tally:
    """Counts what each sample costs where the images are: nothing is read back from the device in between."""

    def __init__(self, samples: int, device: torch.device) -> None:
        self._counts: dict[Kind, Tensor] = {
            kind: torch.zeros(samples, dtype=torch.int64, device=device)
            for kind in ("iterations", "asked", "judged", "backward")
        }
        self.lost = torch.zeros(samples, dtype=torch.int64, device=device)
        """How many looks at each sample gave an objective or a gradient that is not finite."""
        self._latest: dict[Kind, tuple[Tensor, int]] = {}

    def add(self, kind: Kind, rows: Int[Tensor, " m"], times: int = 1) -> None:
        """``times`` more for each of these rows; as long as the same tensor comes again, only a number is added up."""
        latest, before = self._latest.get(kind, (rows, 0))
        if latest is not rows:
            self._write(kind)
            before = 0
        self._latest[kind] = rows, before + times

    def _write(self, kind: Kind) -> None:
        if kind in self._latest:
            rows, times = self._latest.pop(kind)
            self._counts[kind].index_add_(0, rows, torch.full_like(rows, times))

    def spent(self) -> Spent:
        """The counts so far; verdicts are no queries."""
        for kind in self._counts:
            self._write(kind)
        steps, asked, judged, backward = (count.clone() for count in self._counts.values())
        return Spent(steps, asked + judged, backward, asked)


@dataclass(frozen=True, repr=False)
class Result:
    """One image per sample: the one that fools the model, or the best attempt at it."""

    images: Images
    predictions: Int[Tensor, " n"]
    """The prediction of the model itself, in float32, for each of these images."""
    fooled: Bool[Tensor, " n"]
    """Whether that differs from the true label."""
    hit: Bool[Tensor, " n"] | None
    """Whether that is the target and not the true label; None for an attack without a single target."""
    passes: Passes
    spent: Spent | None = field(default=None, kw_only=True)
    """The same sample by sample; None where another package did the work."""
    lost: Int[Tensor, " n"] | None = field(default=None, kw_only=True)
    """How many looks at each sample found an objective of NaN, or a gradient of NaN or infinity somewhere: the attack
    saw less than it should, and survived samples may not be robust. None where another package did the work."""
    threat: Threat | None = field(default=None, kw_only=True)
    """Where the attack looked; None for an attack that stays in no ball."""

    def __repr__(self) -> str:
        facts = [*self._facts(), f"{self.passes.total:,} passes"]
        return f"{type(self).__name__}({', '.join(facts)})"

    def _facts(self) -> list[str]:
        right = f"{int((~self.fooled).sum())} of {len(self.fooled)} still correct"
        return [right] if self.threat is None else [right, str(self.threat)]

    @property
    def success(self) -> Bool[Tensor, " n"]:
        """Whether the attack got what it wanted: the target where there is one, any wrong class otherwise."""
        return self.fooled if self.hit is None else self.hit

    @property
    def accuracy(self) -> float:
        """Share of the samples that the model still gets right."""
        return float((~self.fooled).double().mean())


@dataclass(frozen=True, repr=False)
class Nearest(Result):
    """The result of a minimum-norm attack: the closest image that succeeds, and how close it is."""

    distances: Float[Tensor, " n"]
    """In the attack's norm; infinite where it found nothing, 0 where the clean image already succeeds."""

    @property
    def success(self) -> Bool[Tensor, " n"]:
        """Whether it found an image, by a confidence too: a clean image that is barely wrong may be none."""
        return super().success & self.distances.isfinite()

    @property
    def success_rate(self) -> float:
        """Share of the samples for which something was found."""
        return float(self.success.double().mean())

    @property
    def mean_distance(self) -> float:
        """Mean distance over the successes; NaN without any."""
        found = self.distances[self.success]
        return float(found.double().mean()) if len(found) else math.nan

    def _facts(self) -> list[str]:
        return [f"{int(self.success.sum())} of {len(self.fooled)} found", f"mean distance {self.mean_distance:.3g}"]
