"""The level sets of the losses in feature space, where they have a closed form.

MMC's are spheres around a class's center (Eq. 8). Those of g-SCE for a class k against one runner-up k̃ (Eq. 5 and 6)
are spheres too if the precisions differ, and hyperplanes if they are equal, as in SCE.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from maxmahal.density.volumes import log_ball_volume, log_shell_volume, log_sphere_area
from maxmahal.models import Head


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

    @abstractmethod
    def loss_at(self, squared_radius: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
        """C on the contour of that r²."""

    @abstractmethod
    def log_growth(self, losses: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
        """log |d(r²)/dC|: how fast the contour grows with the loss. The paper omits this."""

    def log_volume(self, losses: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
        """log of the volume that the contour L = C encloses."""
        return log_ball_volume(self.dim, self.squared_radius(losses).clamp_min(0).sqrt())

    def log_volume_rate(self, losses: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
        """log |dV/dC| = log(area · |dr/dC|), with dr = d(r²)/2r: the exact Vol(ΔB)/ΔC in the limit; -inf if empty."""
        squared = self.squared_radius(losses)
        # Area over 2r in one power of r, so that a plane's contours (d = 2) stay finite at their center.
        per_square = log_sphere_area(self.dim, torch.ones_like(squared)) - torch.log(torch.full_like(squared, 2.0))
        power = 0.5 * (self.dim - 2)
        radial = power * squared.clamp_min(0).log() if power else torch.zeros_like(squared)
        rate = per_square + radial + self.log_growth(losses)
        return torch.where(squared < 0, -torch.inf, rate)

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

    def loss_at(self, squared_radius: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
        """½r², in the loss's own scale."""
        return self.scale * (0.5 * squared_radius.to(torch.float64) + self.shift)

    def log_growth(self, losses: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
        """d(r²)/dC = 2/scale, whatever C."""
        return torch.full_like(losses, 2 / self.scale, dtype=torch.float64).log()


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

    def loss_at(self, squared_radius: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
        """log(1 + e^((r² - B)(σ_k - σ_k̃)))."""
        return torch.nn.functional.softplus((squared_radius.to(torch.float64) - self.offset) * self.gap, threshold=700)

    def log_growth(self, losses: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
        """d(r²)/dC = C_e/((C_e - 1)·|σ_k - σ_k̃|)."""
        losses = losses.to(torch.float64)
        return -(-torch.expm1(-losses)).log() - torch.log(torch.full_like(losses, abs(self.gap)))


@dataclass(frozen=True, eq=False)
class PairHyperplanes:
    """normal·z = level(C), the contours for equal precisions: between two of them the volume is infinite (Remark 1)."""

    normal: Tensor
    constant: float
    precision: float

    def level(self, losses: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
        """½(‖μ_k‖² - ‖μ_k̃‖² + (B_k̃ - B_k - log(C_e - 1))/σ)."""
        return self.constant - 0.5 * log_expm1(losses) / self.precision


def pair_contours(
    centers: Float[Tensor, "2 d"], precisions: Float[Tensor, " 2"], biases: Float[Tensor, " 2"]
) -> PairSpheres | PairHyperplanes:
    """The contours of log(1 + e^(h_k̃ - h_k)) for quadratic logits (Eq. 4): row 0 is class k, row 1 its runner-up.

    With two classes this is the g-SCE loss itself.
    """
    own, other = centers.detach().to(torch.float64)
    first, second = precisions.detach().double().tolist()
    bias_gap = float(biases[0].detach().double() - biases[1].detach().double())
    gap = first - second
    if gap == 0:
        constant = 0.5 * (float(own @ own) - float(other @ other) - bias_gap / first)
        return PairHyperplanes(own - other, constant, first)
    offset = first * second * float((own - other).square().sum()) / gap**2 + bias_gap / gap
    return PairSpheres((first * own - second * other) / gap, offset, gap)


HeadContours = Contours | PairHyperplanes | None


def head_centers(head: Head) -> Float[Tensor, "l d"] | None:
    """One point per class; for SCE ½W, as the paper reads its logits (Sec. 3.2); None if unknown."""
    centers, logits = head.class_centers, head.quadratic_logits
    if centers is None and logits is not None:
        centers = logits.centers
    return None if centers is None else centers.detach()


def head_contours(head: Head, label: int, runner_up: int) -> HeadContours:
    """The level sets of the head's loss for class k (against k̃, if it depends on it); None without a closed form."""
    if (loss := head.distance_loss) is not None:
        return CenterSpheres(loss.centers[label].detach().double(), loss.scale, float(loss.shifts[label]))
    if (logits := head.quadratic_logits) is not None:
        return pair_contours(*(each.detach().double()[[label, runner_up]] for each in logits))
    return None


def why_none(contours: HeadContours) -> str:
    """Why no density can be counted between these contours; empty if it can."""
    if contours is None:
        return "no closed form"
    return "contours are planes" if isinstance(contours, PairHyperplanes) else ""
