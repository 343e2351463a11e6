"""The sample density at loss C by Theorems 1 and 2, in the paper's form and in the exact one.

If losses have the density p(C), there are ΔN = N·p(C)·ΔC samples between the contours of C and C + ΔC, and the rest is
geometry.

MMC (Theorem 2). Contours are spheres around the preset center, r² = 2C. All N_k samples of a class share them. They
shrink to a point as C goes to 0, so the density grows without bound.

g-SCE (Theorem 1). Against one runner-up k̃, the contours are spheres around a point M that is neither class's center,
with r² = B + log(C_e - 1)/(σ_k - σ_k̃). Only the N_{k,k̃} samples with that runner-up share them. If σ_k > σ_k̃, no
feature has a loss below C*; if σ_k < σ_k̃, loss goes to 0 only as r² grows without bound, like |log C|, and the density
goes to 0. With equal precisions, as in SCE, contours are planes and the volume between two is infinite (Remark 1).

A correction. The paper takes the volume as area times ΔC, which holds only if the radius grows by one per unit of loss.
The shell's thickness is |dr/dC|·ΔC, so the exact density is

    SD = N·p(C) / (area · |dr/dC|) = N·p(C) / |dV/dC|.

For MMC, |dr/dC| = 1/√(2C): the power of C is (d-2)/2 and not (d-1)/2 as in Eq. 9. Counts of random features agree with
the exact form. Theorem 1 is exact for two classes only: with more, k̃ is the runner-up in only a part of the shell, and
log-sum-exp is larger than the maximum. The paper's conclusion remains: density under MMC still grows as C falls.

Densities are logarithms, per unit of feature volume.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from maxmahal.density import CenterSpheres, Contours, PairSpheres, log_ball_volume
from maxmahal.errors import ArgumentError


def loss_at(contours: CenterSpheres | PairSpheres, squared_radius: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
    """C on the contour of that r²: the inverse of ``squared_radius``."""
    squared = squared_radius.to(torch.float64)
    if isinstance(contours, CenterSpheres):
        return contours.scale * (0.5 * squared + contours.shift)
    return torch.nn.functional.softplus((squared - contours.offset) * contours.gap, threshold=700)


def log_volume_rate(contours: Contours, losses: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
    """log |dV/dC|: the exact Vol(ΔB)/ΔC in the limit; -inf where no feature has that loss."""
    place = losses.detach().to(torch.float64).requires_grad_()
    with torch.enable_grad():
        squared = contours.squared_radius(place)
        (growth,) = torch.autograd.grad(squared.sum(), place)
    # dV = V(1)·d/2·(r²)^(d/2 - 1)·d(r²); without its power, a plane's contours (d = 2) stay finite at their center.
    squared, power = squared.detach(), 0.5 * contours.dim - 1
    radial = power * squared.clamp_min(0).log() if power else torch.zeros_like(squared)
    unit = log_ball_volume(contours.dim, torch.ones_like(squared)) + math.log(0.5 * contours.dim)
    return torch.where(squared < 0, -torch.inf, unit + radial + growth.abs().log())


def log_exact_density(
    contours: Contours, losses: Float[Tensor, "*s"], loss_density: Float[Tensor, "*s"], samples: int
) -> Float[Tensor, "*s"]:
    """log of N·p(C)/|dV/dC|: the density that a count in a thin shell finds.

    ``loss_density`` is p(C), ``samples`` N_k of Theorem 2 or N_{k,k̃} of Theorem 1. For g-SCE with more than two classes
    the shell is an approximation.
    """
    return _log_count(loss_density, samples) - log_volume_rate(contours, losses)


def log_paper_density(
    contours: Contours, losses: Float[Tensor, "*s"], loss_density: Float[Tensor, "*s"], samples: int
) -> Float[Tensor, "*s"]:
    """log of N·p(C) over the paper's power of C (Eq. 7 or 9), without the constant, which the paper does not give."""
    radial = contours.squared_radius(losses)
    if isinstance(contours, CenterSpheres):
        radial = radial / 2  # Eq. 9 has a power of C, Eq. 7 one of r²
    return _log_count(loss_density, samples) - 0.5 * (contours.dim - 1) * radial.log()


def _log_count(loss_density: Float[Tensor, "*s"], samples: int) -> Float[Tensor, "*s"]:
    if samples < 1:
        raise ArgumentError(f"samples must be at least 1, the number of samples that p(C) describes; got {samples}.")
    return math.log(samples) + loss_density.to(torch.float64).log()
