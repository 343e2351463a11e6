"""The level sets of the losses in feature space, where they have a closed form, and the volumes between them.

MMC's are spheres around a class's center (Eq. 8), those of g-SCE for a class k against one runner-up k̃ (Eq. 5 and 6)
are spheres if the precisions differ. Volumes are logarithms: a ball of radius 10 in 512 dimensions has about e^462.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from maxmahal.errors import ArgumentError
from maxmahal.models import Head


def log_ball_volume(dim: int, radius: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
    """log of π^(d/2)·r^d / Γ(d/2 + 1)."""
    if dim < 1:
        raise ArgumentError(f"dim must be at least 1, the number of features; got {dim}.")
    return 0.5 * dim * math.log(math.pi) - math.lgamma(0.5 * dim + 1) + dim * _log_radius(radius)


def log_shell_volume(dim: int, inner: Float[Tensor, "*s"], outer: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
    """log of the volume between two concentric spheres, without the cancellation of a difference of two balls."""
    if bool((inner > outer).any()) or bool((outer <= 0).any()):
        raise ArgumentError(
            "A shell needs 0 <= inner <= outer and an outer radius above 0; some radii break this. Swap or check them."
        )
    ratio = _log_radius(inner) - _log_radius(outer)
    return log_ball_volume(dim, outer) + (-torch.expm1(dim * ratio)).log()


def _log_radius(radius: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
    if bool((radius < 0).any()):
        raise ArgumentError("A radius must not be negative; pass distances, or clamp them at 0.")
    return radius.to(torch.float64).log()


def log_expm1(losses: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
    """log(e^C - 1), the paper's log(C_e - 1), exact for tiny and for huge C."""
    losses = losses.to(torch.float64)
    return losses + (-torch.expm1(-losses)).log()


class Contours(ABC):
    """Nested spheres, one for each value of the loss."""

    center: Tensor

    @property
    def dim(self) -> int:
        """The number of features."""
        return len(self.center)

    @abstractmethod
    def squared_radius(self, losses: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
        """r² of the contour L = C; negative where no feature has that loss."""

    def log_shell_volume(self, low: Float[Tensor, "*s"], high: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
        """log Vol(ΔB) of the features with low <= L <= high, exactly, however thick the shell."""
        ends = torch.stack([self.squared_radius(low), self.squared_radius(high)]).clamp_min(0).sqrt()
        return log_shell_volume(self.dim, ends.amin(dim=0), ends.amax(dim=0))


@dataclass(frozen=True, eq=False)
class CenterSpheres(Contours):
    """L = scale·(½‖z - μ‖² + shift): MMC (Eq. 8) and, with a shift, EMC (Eq. 21)."""

    center: Tensor
    scale: float = 1.0
    shift: float = 0.0

    def squared_radius(self, losses: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
        """2C, in the loss's own scale."""
        return 2 * (losses.to(torch.float64) / self.scale - self.shift)


@dataclass(frozen=True, eq=False)
class PairSpheres(Contours):
    """‖z - M‖² = B + log(C_e - 1)/(σ_k - σ_k̃), Theorem 1's hyperspheres for one class and one runner-up."""

    center: Tensor
    """M of the paper: not the class's own center."""
    offset: float
    """B of the paper (Eq. 7)."""
    gap: float
    """σ_k - σ_k̃."""

    def squared_radius(self, losses: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
        """The bracket in Eq. 7."""
        return self.offset + log_expm1(losses) / self.gap


def pair_contours(
    centers: Float[Tensor, "2 d"], precisions: Float[Tensor, " 2"], biases: Float[Tensor, " 2"]
) -> PairSpheres | None:
    """The contours of log(1 + e^(h_k̃ - h_k)) for quadratic logits (Eq. 4): row 0 is class k, row 1 its runner-up.

    None if the precisions are equal, as in SCE: the contours are planes (Remark 1).
    """
    own, other = centers.detach().to(torch.float64)
    first, second = precisions.detach().double().tolist()
    bias_gap = float(biases[0].detach().double() - biases[1].detach().double())
    gap = first - second
    if gap == 0:
        return None
    offset = first * second * float((own - other).square().sum()) / gap**2 + bias_gap / gap
    return PairSpheres((first * own - second * other) / gap, offset, gap)


def head_centers(head: Head) -> Float[Tensor, "l d"] | None:
    """One point per class; for SCE ½W, as the paper reads its logits (Sec. 3.2); None if unknown."""
    centers, logits = head.class_centers, head.quadratic_logits
    if centers is None and logits is not None:
        centers = logits.centers
    return None if centers is None else centers.detach()


def head_contours(head: Head, label: int, runner_up: int) -> Contours | None:
    """The closed level sets of the head's loss for class k (against k̃, if it depends on it); None without any."""
    if (loss := head.distance_loss) is not None:
        return CenterSpheres(loss.centers[label].detach().double(), loss.scale, float(loss.shifts[label]))
    if (logits := head.quadratic_logits) is not None:
        return pair_contours(*(each.detach().double()[[label, runner_up]] for each in logits))
    return None
