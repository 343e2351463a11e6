"""How far Theorem 1 is from the truth when there are more than two classes: its two errors, each on its own.

The theorem takes all of the shell between two hyperspheres for the region of the samples of class k with runner-up k̃.

(a) k̃ is the highest other class in a part of the shell only; the rest belongs to other runners-up.
(b) Where it is, the loss is log(1 + Σ_l e^(h_l - h_k)) and not log(1 + e^(h_k̃ - h_k)): log-sum-exp is not the maximum,
    so the true region lies at smaller values of the pair's loss, and has another volume.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from maxmahal.density.contours import Contours, pair_contours
from maxmahal.density.counting import region_volume, runners_up
from maxmahal.errors import ArgumentError
from maxmahal.losses.quadratic import quadratic_logits


@dataclass(frozen=True)
class RunnerUpErrors:
    """Three volumes for one class, one runner-up and one range of losses, with relative standard errors."""

    shell: float
    """Theorem 1's: the whole shell."""
    kept: float
    """The part of the shell where k̃ is the runner-up."""
    kept_error: float
    counted: float
    """The features where k̃ is the runner-up and the g-SCE loss itself lies in the range."""
    counted_error: float

    @property
    def runner_up_factor(self) -> float:
        """Error (a): kept/shell; 1 for two classes, and at most 1."""
        return self.kept / self.shell

    @property
    def log_sum_exp_factor(self) -> float:
        """Error (b): counted/kept; 1 for two classes."""
        return self.counted / self.kept if self.kept else math.nan


def runner_up_errors(
    centers: Float[Tensor, "l d"],
    precisions: Float[Tensor, " l"],
    biases: Float[Tensor, " l"],
    *,
    label: int,
    runner_up: int,
    low: float,
    high: float,
    draws: int = 200_000,
    seed: int = 0,
) -> RunnerUpErrors:
    """Measure both errors for losses in [low, high] by uniform points; class ``label`` is k, ``runner_up`` k̃."""
    if label == runner_up or not 0 < low < high:
        raise ArgumentError(
            f"label and runner_up must differ and 0 < low < high hold; got {label}, {runner_up}, {low} and {high}."
        )
    centers, precisions, biases = (each.detach().to(torch.float64) for each in (centers, precisions, biases))
    pair = [label, runner_up]
    contours = pair_contours(centers[pair], precisions[pair], biases[pair])
    if not isinstance(contours, Contours):
        raise ArgumentError("The two precisions are equal, so the contours are hyperplanes and the volumes infinite.")

    def logits_of(points: Float[Tensor, "n d"]) -> tuple[Tensor, Tensor]:
        logits = quadratic_logits(points, centers, precisions, biases)
        labels = torch.full((len(points),), label)
        return logits, runners_up(logits, labels) == runner_up

    def in_shell(points: Float[Tensor, "n d"]) -> Tensor:
        logits, second = logits_of(points)
        return second & _between(torch.nn.functional.softplus(logits[:, runner_up] - logits[:, label]), low, high)

    def in_region(points: Float[Tensor, "n d"]) -> Tensor:
        logits, second = logits_of(points)
        return second & _between(torch.logsumexp(logits, dim=1) - logits[:, label], low, high)

    # Σ_l e^(h_l) is at most (L-1)·e^(h_k̃), so the true region lies where the pair's loss is within these ends.
    least = math.log1p(math.expm1(low) / (len(centers) - 1))
    volumes = []
    for inside, first in ((in_shell, low), (in_region, least)):
        inner, outer = _radii(contours, first, high)
        log_volume, error = region_volume(inside, contours.center, outer, inner=inner, draws=draws, seed=seed)
        volumes.append((math.exp(log_volume), error))
    ends = (torch.tensor(end, dtype=torch.float64) for end in (low, high))
    (kept, kept_error), (counted, counted_error) = volumes
    return RunnerUpErrors(math.exp(float(contours.log_shell_volume(*ends))), kept, kept_error, counted, counted_error)


def _between(losses: Float[Tensor, " n"], low: float, high: float) -> Tensor:
    return (losses >= low) & (losses <= high)


def _radii(contours: Contours, low: float, high: float) -> tuple[float, float]:
    squared = contours.squared_radius(torch.tensor([low, high], dtype=torch.float64))
    inner, outer = (float(each) for each in squared.clamp_min(0).sqrt().sort().values)
    if outer == 0:
        raise ArgumentError(f"No feature has a loss between {low:g} and {high:g} against this runner-up; raise high.")
    # A hair wider: the loss is rounded, and points on the very rim must not fall outside.
    return inner * (1 - 1e-9), outer * (1 + 1e-9)
