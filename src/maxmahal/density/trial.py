"""A theorem put to the test: features drawn from a Gaussian, counted between contours, against both predictions.

The features' law is known: their squared distance from the contours' center is a noncentral chi-square. So p(C) is
known too, and nothing in the prediction is fitted to the counts. The paper's form is even granted a constant,
the one that fits the counts best; it still fails, because its power of C is another.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.centers import max_mahalanobis_centers
from maxmahal.density.contours import CenterSpheres, Contours, PairSpheres, pair_contours
from maxmahal.density.counting import count_between
from maxmahal.density.theorems import log_exact_density, log_paper_density
from maxmahal.density.volumes import squared_radius_quantiles, squared_radius_share
from maxmahal.errors import ArgumentError
from maxmahal.losses.mmc import mmc_loss
from maxmahal.losses.quadratic import gsce_loss
from maxmahal.random import generator

_CHUNK = 50_000
_MASS = 0.004  # of the samples in a shell: thin enough that its finite width is a tenth of a standard error
_FIRST, _LAST = 0.04, 0.96  # the quantiles of the radius between which shells are counted


@dataclass(frozen=True, eq=False)
class Trial:
    """A loss, its contours, and features N(mean, scale²·I) of one class."""

    contours: Contours
    loss: Callable[[Float[Tensor, "n d"]], Float[Tensor, " n"]]
    mean: Tensor
    scale: float
    seed: int
    about: str


@dataclass(frozen=True, eq=False)
class Outcome:
    """Shells in order: the loss in their middle, samples counted, and samples expected by each form."""

    samples: int
    losses: Tensor
    counts: Tensor
    log_volumes: Tensor
    log_exact: Tensor
    log_paper: Tensor

    @property
    def expected(self) -> Float[Tensor, " m"]:
        """The counts that the exact density predicts; nothing is fitted."""
        return (self.log_exact + self.log_volumes).exp()

    @property
    def paper_expected(self) -> Float[Tensor, " m"]:
        """The counts that the paper's power predicts, with the constant that fits the counts best."""
        shape = (self.log_paper + self.log_volumes).softmax(dim=0)
        return shape * self.counts.sum()

    @property
    def errors(self) -> Float[Tensor, " m"]:
        """How far each count is from the exact prediction, in standard errors."""
        return (self.counts - self.expected) / self.expected.sqrt()


def run_trial(trial: Trial, *, samples: int = 400_000, shells: int = 7) -> Outcome:
    """Draw features, evaluate the loss on each, and count them in thin shells."""
    low, high = _shells(trial, shells)
    middle = 0.5 * (low + high)
    contours = trial.contours
    offset = _distance(trial)
    within = [
        squared_radius_share(contours.squared_radius(end), contours.dim, trial.scale, offset) for end in (low, high)
    ]
    loss_density = (within[1] - within[0]).abs() / (high - low)
    counts = torch.zeros(shells, dtype=torch.int64)
    for losses in _losses(trial, samples):
        counts += count_between(losses, low, high)
    return Outcome(
        samples,
        middle,
        counts,
        contours.log_shell_volume(low, high),
        log_exact_density(contours, middle, loss_density, samples),
        log_paper_density(contours, middle, loss_density, samples),
    )


def chi_square(counts: Int[Tensor, " m"], expected: Float[Tensor, " m"], fitted: int = 0) -> tuple[float, float]:
    """Pearson's statistic and its p-value; each constant fitted to the counts takes one degree of freedom.

    The shells hold a few of each thousand samples, so their counts are as good as independent Poisson counts.
    """
    statistic = float(((counts - expected).square() / expected).sum())
    freedom = len(counts) - fitted
    if freedom < 1:
        raise ArgumentError(f"There must be more counts than fitted constants; got {len(counts)} and {fitted}.")
    half, reached = (torch.tensor(value / 2, dtype=torch.float64) for value in (freedom, statistic))
    return statistic, float(torch.special.gammaincc(half, reached))


def mmc_trial(dim: int, seed: int) -> Trial:
    """A random setting of Theorem 2: center, spread and place of the features are drawn."""
    draw = generator(seed, "density trial", "mmc", dim)
    norm, scale = _between(0.5, 10.0, draw), _between(0.3, 2.0, draw)
    center = max_mahalanobis_centers(2, dim, norm, dtype=torch.float64)[:1]
    mean = center[0] + _offset(dim, scale, draw)

    def loss(features: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        return mmc_loss(features, torch.zeros(len(features), dtype=torch.int64), center)

    return Trial(CenterSpheres(center[0]), loss, mean, scale, seed, f"MMC, d = {dim}")


def gsce_trial(dim: int, seed: int) -> Trial:
    """A random setting of Theorem 1 with two classes, where its contours are exact.

    The difference of the precisions and the biases are such that losses neither vanish nor explode: with both drawn
    blindly, float64 would read most losses as 0 in high dimension.
    """
    draw = generator(seed, "density trial", "gsce", dim)
    scale = _between(0.3, 2.0, draw)
    gap = _between(0.5, 2.0, draw) / (math.sqrt(2 * dim) * scale**2) * (1 if _between(0.0, 1.0, draw) < 0.5 else -1)
    precision = abs(gap) + _between(0.1, 1.0, draw)
    precisions = torch.tensor([precision + gap, precision], dtype=torch.float64)
    centers = torch.randn((2, dim), generator=draw, dtype=torch.float64) / math.sqrt(dim)
    offset = _offset(dim, scale, draw)
    typical = scale**2 * dim + float(offset.square().sum())
    # r² = B + t/gap at the typical radius, for a loss log(1 + e^t) of moderate size.
    unbiased = _spheres(centers, precisions, torch.zeros(2))
    bias = gap * (typical - unbiased.offset) - _between(-2.5, 1.0, draw)
    biases = torch.tensor([bias, 0.0], dtype=torch.float64)
    contours = _spheres(centers, precisions, biases)

    def loss(features: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        labels = torch.zeros(len(features), dtype=torch.int64)
        return gsce_loss(features, labels, centers, precisions, biases)

    return Trial(contours, loss, contours.center + offset, scale, seed, f"g-SCE, two classes, d = {dim}")


def _spheres(
    centers: Float[Tensor, "2 d"], precisions: Float[Tensor, " 2"], biases: Float[Tensor, " 2"]
) -> PairSpheres:
    contours = pair_contours(centers, precisions, biases)
    if not isinstance(contours, PairSpheres):
        raise ArgumentError("The precisions of a trial must differ by a multiple of the identity; draw other ones.")
    return contours


def _between(low: float, high: float, draw: torch.Generator) -> float:
    return low + (high - low) * float(torch.rand((), generator=draw, dtype=torch.float64))


def _offset(dim: int, scale: float, draw: torch.Generator) -> Float[Tensor, " d"]:
    """Half of the settings have their features around the contours' center, the others beside it."""
    away = torch.randn(dim, generator=draw, dtype=torch.float64)
    length = scale * max(0.0, _between(-3.0, 3.0, draw))
    offset: Tensor = away * (length / torch.linalg.vector_norm(away))
    return offset


def _distance(trial: Trial) -> float:
    return float(torch.linalg.vector_norm(trial.mean - trial.contours.center))


def _shells(trial: Trial, shells: int) -> tuple[Float[Tensor, " m"], Float[Tensor, " m"]]:
    """The losses between which to count: each shell the same small share of the samples."""
    places = torch.linspace(_FIRST, _LAST, shells, dtype=torch.float64)
    quantiles = torch.stack([places - 0.5 * _MASS, places + 0.5 * _MASS])
    squared = squared_radius_quantiles(quantiles, trial.contours.dim, trial.scale, _distance(trial))
    ends = trial.contours.loss_at(squared)
    return ends.amin(dim=0), ends.amax(dim=0)


def _losses(trial: Trial, samples: int) -> Iterator[Float[Tensor, " n"]]:
    draw = generator(trial.seed, "density features")
    for start in range(0, samples, _CHUNK):
        size = (min(_CHUNK, samples - start), trial.contours.dim)
        noise = torch.randn(size, generator=draw, dtype=torch.float64)
        yield trial.loss(trial.mean + trial.scale * noise)
