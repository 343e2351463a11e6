"""Attacks: threats say what is allowed, objectives what is wanted, attacks how to look for it, one engine runs them."""

from maxmahal.attacks.apgd import apgd
from maxmahal.attacks.autoattack import AutoAttackResult, autoattack, fab
from maxmahal.attacks.bound_attack import BoundAttack, bind
from maxmahal.attacks.carlini import carlini_wagner
from maxmahal.attacks.engine import Engine, Progress
from maxmahal.attacks.fgsm import fgsm
from maxmahal.attacks.mim import mim
from maxmahal.attacks.minimum_norm import fmn
from maxmahal.attacks.objectives import (
    OBJECTIVES,
    Objective,
    Outputs,
    class_logit,
    cross_entropy,
    custom,
    dlr,
    margin,
    model_outputs,
    nearest_center,
    own_loss,
    own_loss_difference,
)
from maxmahal.attacks.oracle import Model
from maxmahal.attacks.pgd import craft, pgd
from maxmahal.attacks.prepare import Prepared, prepare
from maxmahal.attacks.registry import ATTACKS, Attack
from maxmahal.attacks.result import Nearest, Passes, Result, Spent
from maxmahal.attacks.spsa import spsa
from maxmahal.attacks.square import square
from maxmahal.attacks.straight_through import straight_through
from maxmahal.attacks.targets import TARGETS, TargetPolicy, Targets
from maxmahal.attacks.threats import L2, Linf, Threat, parse_epsilon
from maxmahal.attacks.transfer import Transferred, transfer, transfer_matrix
from maxmahal.attacks.transforms import (
    Transformed,
    gaussian_noise,
    random_rotation,
    rotate,
    worst_of_noise,
    worst_of_rotations,
)

__all__ = [
    "ATTACKS",
    "L2",
    "OBJECTIVES",
    "TARGETS",
    "Attack",
    "AutoAttackResult",
    "BoundAttack",
    "Engine",
    "Linf",
    "Model",
    "Nearest",
    "Objective",
    "Outputs",
    "Passes",
    "Prepared",
    "Progress",
    "Result",
    "Spent",
    "TargetPolicy",
    "Targets",
    "Threat",
    "Transferred",
    "Transformed",
    "apgd",
    "autoattack",
    "bind",
    "carlini_wagner",
    "class_logit",
    "craft",
    "cross_entropy",
    "custom",
    "dlr",
    "fab",
    "fgsm",
    "fmn",
    "gaussian_noise",
    "margin",
    "mim",
    "model_outputs",
    "nearest_center",
    "own_loss",
    "own_loss_difference",
    "parse_epsilon",
    "pgd",
    "prepare",
    "random_rotation",
    "rotate",
    "spsa",
    "square",
    "straight_through",
    "transfer",
    "transfer_matrix",
    "worst_of_noise",
    "worst_of_rotations",
]


def __dir__() -> list[str]:
    """The public names alone: each file of the package is an attribute of it as well."""
    return list(__all__)
