"""A test of Theorems 1 and 2: Gaussian features, counted between contours, against both predictions.

The squared distance of the features from the contours' center has a noncentral chi-square distribution. So p(C) is
known, and the exact prediction has no fitted parameter. The paper's form gets the constant that fits the counts best;
it still fails, because its power of C differs.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy import stats
from torch import Tensor

from maxmahal.centers import max_mahalanobis_centers
from maxmahal.density import CenterSpheres, PairSpheres, pair_contours
from maxmahal.errors import ArgumentError
from maxmahal.losses.gsce import gsce_loss
from maxmahal.losses.mmc import mmc_loss
from maxmahal.random import generator
from maxmahal.report.chart import Axis, Chart, Drawing, Key
from paper.gallery.figure import FigureOptions, FigureRecord
from paper.gallery.theorems import log_exact_density, log_paper_density, loss_at

_CHUNK = 50_000
_MASS = 0.004  # of the samples in a shell: thin enough that its finite width is a tenth of a standard error
_FIRST, _LAST = 0.04, 0.96  # the quantiles of the radius between which shells are counted
LEGEND = (
    Key("s0", "exact: N·p(C)/|dV/dC|"),
    Key("s1", "the paper's power, constant fitted"),
    Key("s2", "counted, ± 3 standard errors"),
)


@dataclass(frozen=True, eq=False)
class DensityTrial:
    """A loss, its contours, and features N(mean, scale²·I) of one class."""

    contours: CenterSpheres | PairSpheres
    loss: Callable[[Float[Tensor, "n d"]], Float[Tensor, " n"]]
    mean: Tensor
    scale: float
    seed: int
    about: str


@dataclass(frozen=True, eq=False)
class ShellCounts:
    """Per shell: the loss in its middle, the samples counted, and the samples expected by each form."""

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


def run_trial(trial: DensityTrial, *, samples: int = 400_000, shells: int = 7) -> ShellCounts:
    """Draw features, evaluate the loss on each, and count them in thin shells."""
    low, high = _shells(trial, shells)
    middle = 0.5 * (low + high)
    contours = trial.contours
    law = _squared_radius_law(trial)
    within = [torch.from_numpy(law.cdf(contours.squared_radius(end).numpy())) for end in (low, high)]
    loss_density = (within[1] - within[0]).abs() / (high - low)
    counts = torch.zeros(shells, dtype=torch.int64)
    for losses in _losses(trial, samples):
        counts += count_between(losses, low, high)
    return ShellCounts(
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
    return statistic, float(stats.chi2.sf(statistic, freedom))


def mmc_trial(dim: int, seed: int) -> DensityTrial:
    """A random setting of Theorem 2: center, spread and place of the features are drawn."""
    draw = generator(seed, "density trial", "mmc", dim)
    norm, scale = _between(0.5, 10.0, draw), _between(0.3, 2.0, draw)
    center = max_mahalanobis_centers(2, dim, norm, dtype=torch.float64)[:1]
    mean = center[0] + _offset(dim, scale, draw)

    def loss(features: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        return mmc_loss(features, torch.zeros(len(features), dtype=torch.int64), center)

    return DensityTrial(CenterSpheres(center[0]), loss, mean, scale, seed, f"MMC, d = {dim}")


def gsce_trial(dim: int, seed: int) -> DensityTrial:
    """A random setting of Theorem 1 with two classes, where its contours are exact.

    The difference of the precisions and the biases are chosen such that losses have a moderate size: otherwise most
    would be 0 in float64 in high dimension.
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

    return DensityTrial(contours, loss, contours.center + offset, scale, seed, f"g-SCE, two classes, d = {dim}")


def _spheres(
    centers: Float[Tensor, "2 d"], precisions: Float[Tensor, " 2"], biases: Float[Tensor, " 2"]
) -> PairSpheres:
    contours = pair_contours(centers, precisions, biases)
    if contours is None:
        raise ArgumentError("The precisions of a trial must differ by a multiple of the identity; draw other ones.")
    return contours


def _between(low: float, high: float, draw: torch.Generator) -> float:
    return low + (high - low) * float(torch.rand((), generator=draw, dtype=torch.float64))


def _offset(dim: int, scale: float, draw: torch.Generator) -> Float[Tensor, " d"]:
    """Zero in half of the settings: their features are centered at the contours' center."""
    away = torch.randn(dim, generator=draw, dtype=torch.float64)
    length = scale * max(0.0, _between(-3.0, 3.0, draw))
    offset: Tensor = away * (length / torch.linalg.vector_norm(away))
    return offset


def _squared_radius_law(trial: DensityTrial) -> Any:
    """The distribution of the features' squared distance from the contours' center."""
    away = float(torch.linalg.vector_norm(trial.mean - trial.contours.center))
    return stats.ncx2(trial.contours.dim, (away / trial.scale) ** 2, scale=trial.scale**2)


def _shells(trial: DensityTrial, shells: int) -> tuple[Float[Tensor, " m"], Float[Tensor, " m"]]:
    """The ends of each shell, in losses; each holds the same small share of the samples."""
    places = torch.linspace(_FIRST, _LAST, shells, dtype=torch.float64)
    quantiles = torch.stack([places - 0.5 * _MASS, places + 0.5 * _MASS])
    squared = _squared_radius_law(trial).ppf(quantiles.numpy())
    ends = loss_at(trial.contours, torch.from_numpy(squared))
    return ends.amin(dim=0), ends.amax(dim=0)


def _losses(trial: DensityTrial, samples: int) -> Iterator[Float[Tensor, " n"]]:
    draw = generator(trial.seed, "density features")
    for start in range(0, samples, _CHUNK):
        size = (min(_CHUNK, samples - start), trial.contours.dim)
        noise = torch.randn(size, generator=draw, dtype=torch.float64)
        yield trial.loss(trial.mean + trial.scale * noise)


def count_between(
    losses: Float[Tensor, " n"], low: Float[Tensor, " m"], high: Float[Tensor, " m"]
) -> Int[Tensor, " m"]:
    """ΔN: how many losses are in each interval [low, high)."""
    ordered = losses.to(torch.float64).sort().values
    return torch.searchsorted(ordered, high.to(torch.float64)) - torch.searchsorted(ordered, low.to(torch.float64))


def compute(options: FigureOptions, dim: int = 8, shells: int = 9) -> FigureRecord:
    """Both theorems in a random setting: counts, the exact density, and the paper's power with a fitted constant."""
    samples = 20_000 if options.quick else 200_000
    trials = (gsce_trial(dim, options.seed), mmc_trial(dim, options.seed))
    panels = [_trial_record(trial, run_trial(trial, samples=samples, shells=shells)) for trial in trials]
    return {"figure": "densities", "seed": options.seed, "dim": dim, "panels": panels}


def _trial_record(trial: DensityTrial, found: ShellCounts) -> FigureRecord:
    fitted = found.paper_expected.log() - found.log_volumes
    exact, paper = chi_square(found.counts, found.expected), chi_square(found.counts, found.paper_expected, 1)
    return {
        "about": trial.about,
        "samples": found.samples,
        "losses": found.losses.tolist(),
        "counts": found.counts.tolist(),
        "log_counted": (found.counts.double().log() - found.log_volumes).tolist(),
        "relative_errors": found.expected.rsqrt().tolist(),
        "log_exact": found.log_exact.tolist(),
        "log_paper": fitted.tolist(),
        "exact_chi_square": exact[0],
        "exact_p_value": exact[1],
        "paper_chi_square": paper[0],
        "paper_p_value": paper[1],
    }


def panels(record: FigureRecord) -> list[Drawing]:
    """Per theorem the density against the loss, and below it everything as a ratio to the exact prediction."""
    return [draw(each) for draw in (_densities, _ratios) for each in record["panels"]]


def _densities(record: FigureRecord) -> Drawing:
    losses, exact, paper, counted = _sorted(record, "losses", "log_exact", "log_paper", "log_counted")
    y = Axis.around("log density", [*exact, *paper, *counted])
    chart = Chart(record["about"], Axis.around("loss C", losses, "log"), y, width=400.0)
    chart.line(losses, exact, 0)
    chart.line(losses, paper, 1)
    chart.points(losses, counted, 2)
    return chart


def _ratios(record: FigureRecord) -> Drawing:
    losses, exact, paper, counted, errors = (
        np.array(each) for each in _sorted(record, "losses", "log_exact", "log_paper", "log_counted", "relative_errors")
    )
    paper, counted, errors = np.exp(paper - exact), np.exp(counted - exact), 3 * errors
    y = Axis.around("ratio to the exact density", [1.0, *paper, *(counted - errors), *(counted + errors)])
    chart = Chart(
        f"{record['about']}: ratios", Axis.around("loss C", losses.tolist(), "log"), y, width=400.0, height=220.0
    )
    chart.line(losses.tolist(), [1.0] * len(losses), 0)
    chart.line(losses.tolist(), paper.tolist(), 1)
    for x, middle, error in zip(losses, counted, errors, strict=True):
        chart.line([x, x], [middle - error, middle + error], 2)
    chart.points(losses.tolist(), counted.tolist(), 2)
    return chart


def _sorted(record: FigureRecord, *keys: str) -> list[list[float]]:
    order = sorted(range(len(record["losses"])), key=lambda place: float(record["losses"][place]))
    return [[record[key][place] for place in order] for key in keys]
