"""What a set of centers looks like: lengths, angles, and how many dimensions it takes to hold it."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from maxmahal.centers.spherical_codes import largest_cosine
from maxmahal.errors import ArgumentError

ROUNDING = 1e-10  # of the whole spread: what lies along an axis by the rounding of float32 alone


@dataclass(frozen=True)
class CenterStatistics:
    """Lengths and spread of a set of centers; angles in degrees."""

    smallest_norm: float
    largest_norm: float
    largest_cosine: float
    smallest_angle: float
    centroid_norm: float


def center_statistics(centers: Float[Tensor, "l d"]) -> CenterStatistics:
    """Measured in float64; a lone center has cosine −1 and angle 180, one at the origin cosines of 0."""
    if centers.numel() == 0:
        raise ArgumentError(f"centers must hold at least one center; got shape {tuple(centers.shape)}.")
    exact = centers.detach().to(torch.float64)
    norms = torch.linalg.vector_norm(exact, dim=1)
    directions = exact / norms.clamp(min=torch.finfo(torch.float64).tiny)[:, None]
    cosine = float(largest_cosine(directions[None]))
    return CenterStatistics(
        smallest_norm=float(norms.min()),
        largest_norm=float(norms.max()),
        largest_cosine=cosine,
        smallest_angle=math.degrees(math.acos(cosine)),
        centroid_norm=float(torch.linalg.vector_norm(exact.mean(dim=0))),
    )


def squared_distance_to_flat(
    centers: Float[Tensor, "l d"], dims: int, counts: Shaped[Tensor, " l"] | None = None
) -> float:
    """The centers' mean squared distance to the flat of ``dims`` dimensions that is nearest to them.

    Features from a linear layer that takes ``dims`` values lie in one such flat, so half of this is a floor under the
    mean of ½‖z - μ_y‖² over images, ``counts`` in each class. For Max-Mahalanobis centers it is C²·(1 - dims/(L - 1)).
    """
    if dims < 0:
        raise ArgumentError(f"dims is a number of dimensions and cannot be negative; got {dims}.")
    if dims >= min(len(centers) - 1, centers.shape[1]) > 0:
        return 0.0  # at once, for many centers
    squares = _squares(centers, torch.ones(len(centers)) if counts is None else counts)
    return float(squares[: max(0, len(squares) - dims)].sum())


def dimensions_spanned(centers: Float[Tensor, "l d"]) -> int:
    """How many dimensions the smallest flat has that holds all the centers, up to rounding."""
    squares = _squares(centers, torch.ones(len(centers)))
    return int((squares > ROUNDING * squares.sum()).sum())


def _squares(centers: Float[Tensor, "l d"], counts: Shaped[Tensor, " l"]) -> Float[Tensor, " k"]:
    """The centers' mean squares along their principal axes, ascending."""
    if centers.numel() == 0:
        raise ArgumentError(f"centers must hold at least one center; got shape {tuple(centers.shape)}.")
    exact = centers.detach().to(torch.float64)
    shares = counts.to(exact) / counts.sum()
    spread = (exact - shares @ exact) * shares.sqrt()[:, None]
    gram = spread.T @ spread if len(spread) > spread.shape[1] else spread @ spread.T
    squares: Tensor = torch.linalg.eigvalsh(gram)
    return squares.clamp(min=0)
