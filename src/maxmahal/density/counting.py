"""Sample density as the paper defines it (Eq. 2): samples counted in a region, over the region's volume."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.density.volumes import log_ball_volume, points_in_shell
from maxmahal.errors import ArgumentError
from maxmahal.random import generator

_CHUNK = 50_000  # points drawn at once: 25 MB in 64 dimensions


@dataclass(frozen=True)
class Count:
    """ΔN, log Vol(ΔB), and the density they make."""

    samples: int
    log_volume: float

    @property
    def log_density(self) -> float:
        """log(ΔN/Vol(ΔB)); -inf for an empty region."""
        return math.log(self.samples) - self.log_volume if self.samples else -math.inf

    @property
    def relative_error(self) -> float:
        """The standard error of the density as a share of it: that of a Poisson count."""
        return 1 / math.sqrt(self.samples) if self.samples else math.inf


def count_between(
    losses: Float[Tensor, " n"], low: Float[Tensor, " m"], high: Float[Tensor, " m"]
) -> Int[Tensor, " m"]:
    """ΔN: how many losses lie in each interval [low, high)."""
    ordered = losses.to(torch.float64).sort().values
    return torch.searchsorted(ordered, high.to(torch.float64)) - torch.searchsorted(ordered, low.to(torch.float64))


def count_density(losses: Float[Tensor, " n"], low: float, high: float, log_volume: float) -> Count:
    """Eq. 2 for the region with low <= L < high, whose volume the caller knows (``Contours.log_shell_volume``)."""
    if not low < high:
        raise ArgumentError(f"low must be below high, the ends of a range of losses; got {low} and {high}.")
    ends = (torch.tensor([end], dtype=torch.float64) for end in (low, high))
    return Count(int(count_between(losses, *ends)), log_volume)


def of_pair(
    logits: Float[Tensor, "n l"], labels: Int[Tensor, " n"], label: int, runner_up: int | None = None
) -> Int[Tensor, " m"]:
    """The places of the samples of class k, or of those whose highest other logit is class k̃ (the paper's D_{k,k̃})."""
    chosen = labels == label
    if runner_up is not None:
        chosen &= runners_up(logits, labels) == runner_up
    return chosen.nonzero().squeeze(1)


def runners_up(logits: Float[Tensor, "n l"], labels: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """ỹ: the class with the highest logit among the wrong ones."""
    return logits.scatter(1, labels[:, None], -torch.inf).argmax(dim=1)


def region_volume(
    inside: Callable[[Float[Tensor, "n d"]], Tensor],
    center: Float[Tensor, " d"],
    radius: float,
    *,
    inner: float = 0.0,
    draws: int = 200_000,
    seed: int = 0,
) -> tuple[float, float]:
    """The volume of any region within a ball, or a shell, by uniform points: the log of it and the relative error.

    ``inside`` says of each point whether it belongs. The region must lie in the ball, and should fill a fair share of
    it: in many dimensions only regions near the surface do.
    """
    draw, hits, dim = generator(seed, "region volume", len(center)), 0, len(center)
    for start in range(0, draws, _CHUNK):
        points = points_in_shell(min(_CHUNK, draws - start), dim, inner, radius, draw)
        hits += int(inside(points + center.to(torch.float64)).sum())
    whole = log_ball_volume(dim, torch.tensor(radius)) + math.log1p(-((inner / radius) ** dim))
    share = hits / draws
    if not hits:
        return -math.inf, math.inf
    return float(whole) + math.log(share), math.sqrt((1 - share) / hits)


def log_neighbour_density(
    features: Float[Tensor, "n d"], neighbours: int = 5, *, queries: int | None = None
) -> Float[Tensor, " m"]:
    """Eq. 2 with ΔB the ball that reaches to a sample's k-th nearest neighbour: log(k / Vol), whatever the loss.

    Neighbours are sought among all features; ``queries`` asks for the density at the first so many alone.
    """
    if not 1 <= neighbours < len(features):
        raise ArgumentError(
            f"neighbours must lie in 1..{len(features) - 1} because there are {len(features)} features; "
            f"got {neighbours}."
        )
    exact = features.to(torch.float64)
    rows = torch.split(exact[:queries], max(1, 4_000_000 // len(exact)))
    # Not by one matrix product: its rounding would swallow the distances of features that all but coincide.
    kind = "donot_use_mm_for_euclid_dist"
    reaches = [torch.cdist(part, exact, compute_mode=kind).kthvalue(neighbours + 1, dim=1).values for part in rows]
    return math.log(neighbours) - log_ball_volume(features.shape[1], torch.cat(reaches))
