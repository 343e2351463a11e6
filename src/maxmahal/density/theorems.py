"""The sample density at loss C by Theorems 1 and 2, in the paper's form and in the exact one.

Both start from ΔN = N·p(C)·ΔC samples between the contours of C and C + ΔC. The paper takes the volume between them as
area times ΔC, which holds only if the radius grows by one per unit of loss. The shell's thickness is
dr = |dr/dC|·dC, so the exact density is

    SD = N·p(C) / (area · |dr/dC|) = N·p(C) / |dV/dC|.

For MMC, r² = 2C and |dr/dC| = 1/√(2C): the power of C is (d-2)/2 and not (d-1)/2. For g-SCE with two classes
|dr/dC| = C_e/(2r(C_e-1)|σ_k - σ_k̃|). Densities are logarithms, per unit of feature volume.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from maxmahal.density.contours import CenterSpheres, Contours
from maxmahal.errors import ArgumentError


def log_exact_density(
    contours: Contours, losses: Float[Tensor, "*s"], loss_density: Float[Tensor, "*s"], samples: int
) -> Float[Tensor, "*s"]:
    """log of N·p(C)/|dV/dC|: the density that a count in a thin shell finds.

    ``loss_density`` is p(C), ``samples`` N_k of Theorem 2 or N_{k,k̃} of Theorem 1. For g-SCE with more than two classes
    the shell is an approximation.
    """
    return _log_count(loss_density, samples) - contours.log_volume_rate(losses)


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
