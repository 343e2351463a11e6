"""The short attacks that checks compare; none of them minds how large the ball is."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from maxmahal.attacks import Attacked, Objective, margin
from maxmahal.attacks.apgd import AutoDescent
from maxmahal.attacks.engine import Case, run
from maxmahal.attacks.method import Method
from maxmahal.attacks.pgd import ProjectedDescent
from maxmahal.attacks.square import RandomSquares
from maxmahal.attacks.threats import L2, Linf
from maxmahal.evaluate.diagnose.probe import Probe

_FEWEST = 3  # samples: one or two are luck, whatever share of a small probe they are
_SQUARE_START = 0.8  # the share of the pixels in the first windows, as in the paper


def auto_descent(
    probe: Probe,
    objective: Objective,
    *,
    steps: int,
    start: int = 0,
    threat: Linf | L2 | None = None,
    among: Bool[Tensor, " n"] | None = None,
) -> Bool[Tensor, " n"]:
    """Which samples APGD breaks from the start of that number, if they are ``among`` those to be attacked."""
    return _fooled(probe, AutoDescent(threat or probe.threat, steps, probe.keyed("apgd", start)), objective, among)


def plain_descent(probe: Probe, objective: Objective, *, steps: int) -> Bool[Tensor, " n"]:
    """Which samples PGD breaks, with steps that cross the ball two and a half times."""
    method = ProjectedDescent(probe.threat, steps, 2.5 * probe.threat.radius / steps, probe.keyed("pgd"))
    return _fooled(probe, method, objective)


def random_squares(
    probe: Probe, *, queries: int, threat: Linf | L2 | None = None, among: Bool[Tensor, " n"] | None = None
) -> Bool[Tensor, " n"]:
    """Which samples Square breaks, if they are ``among`` those to be attacked."""
    method = RandomSquares(threat or probe.threat, queries, _SQUARE_START, probe.keyed("square"))
    return _fooled(probe, method, margin(), among)


def _fooled(
    probe: Probe, method: Method, objective: Objective, among: Bool[Tensor, " n"] | None = None
) -> Bool[Tensor, " n"]:
    rows = torch.arange(len(probe.images), device=probe.images.device) if among is None else among.nonzero().squeeze(1)
    fooled = torch.zeros_like(probe.labels, dtype=torch.bool)
    if len(rows):
        fooled[rows] = _run(probe, method, objective, rows).fooled
    return fooled


def _run(probe: Probe, method: Method, objective: Objective, rows: Int[Tensor, " m"]) -> Attacked:
    # Not by the attacks' front doors: those warn of balls in which no model can resist, and one check needs such balls.
    case = Case(probe.images[rows], probe.labels[rows], probe.seed, probe.sample_ids[rows])
    bounds = probe.threat.bounds
    return run(method, probe.fast, case, objective=objective, engine=probe.engine, bounds=bounds)


def share(which: Bool[Tensor, " n"]) -> float:
    """How many of all."""
    return float(which.double().mean())


def is_many(part: float, most: float, probe: Probe) -> bool:
    """Whether a share of the samples is above ``most``, and no handful that a small probe makes look like much."""
    return part > most and round(part * len(probe.images)) >= _FEWEST


def percent(part: float) -> str:
    """A share as people read it."""
    return f"{100 * part:.1f} %"
