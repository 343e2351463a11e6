"""What a set of centers looks like, in five numbers."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from maxmahal.centers.blocks import largest_cosine
from maxmahal.errors import ArgumentError


@dataclass(frozen=True)
class CenterStatistics:
    """Lengths and spread of a set of centers; angles in degrees."""

    smallest_norm: float
    largest_norm: float
    largest_cosine: float
    smallest_angle: float
    centroid_norm: float


def center_statistics(centers: Float[Tensor, "l d"]) -> CenterStatistics:
    """Measure in float64, a block of rows at a time.

    A lone center has no neighbour: its largest cosine reads −1 and its smallest angle 180. A center at the origin has
    no direction: its cosines read 0.
    """
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
