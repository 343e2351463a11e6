"""Attacks: threats say what is allowed, objectives what is wanted, attacks how to look for it."""

from maxmahal.attacks.objectives import (
    OBJECTIVES,
    Objective,
    Outputs,
    cross_entropy,
    margin,
    model_outputs,
    own_loss,
)
from maxmahal.attacks.pgd import pgd
from maxmahal.attacks.threats import Linf, parse_epsilon
from maxmahal.attacks.transforms import gaussian_noise, random_rotation, rotate

__all__ = [
    "OBJECTIVES",
    "Linf",
    "Objective",
    "Outputs",
    "cross_entropy",
    "gaussian_noise",
    "margin",
    "model_outputs",
    "own_loss",
    "parse_epsilon",
    "pgd",
    "random_rotation",
    "rotate",
]
