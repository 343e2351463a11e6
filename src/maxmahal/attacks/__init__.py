"""Attacks: threats say what is allowed, objectives what is wanted, attacks how to look for it, one engine runs them."""

from maxmahal.attacks.apgd import apgd
from maxmahal.attacks.autoattack import AutoAttackResult, autoattack, fab
from maxmahal.attacks.bind import BoundAttack, bind
from maxmahal.attacks.carlini import carlini_wagner
from maxmahal.attacks.engine import Engine, Progress
from maxmahal.attacks.fgsm import fgsm
from maxmahal.attacks.mim import mim
from maxmahal.attacks.minimum_norm import fmn
from maxmahal.attacks.objectives import (
    OBJECTIVES,
    Objective,
    class_logit,
    cross_entropy,
    custom,
    dlr,
    margin,
    nearest_center,
    own_loss,
    own_loss_difference,
)
from maxmahal.attacks.oracle import Model
from maxmahal.attacks.outputs import Outputs, model_outputs
from maxmahal.attacks.pgd import craft, pgd
from maxmahal.attacks.prepare import Prepared, prepare
from maxmahal.attacks.protocol import (
    PaperCarliniWagner,
    paper_mim,
    paper_noise,
    paper_objective,
    paper_pgd,
    paper_rotation,
    paper_spsa,
)
from maxmahal.attacks.result import Attacked, Nearest
from maxmahal.attacks.spent import Passes, Spent
from maxmahal.attacks.spsa import spsa
from maxmahal.attacks.square import square
from maxmahal.attacks.straight_through import straight_through
from maxmahal.attacks.targets import TARGETS, TargetPolicy, Targets
from maxmahal.attacks.threats import L2, Linf, Threat, parse_epsilon
from maxmahal.attacks.transfer import Transferred, transfer, transfer_matrix
from maxmahal.attacks.transforms import gaussian_noise, random_rotation, rotate
from maxmahal.attacks.worst_of import Transformed, angle_grid, rotation_grid, worst_of_noise, worst_of_rotations

__all__ = [
    "L2",
    "OBJECTIVES",
    "TARGETS",
    "Attacked",
    "AutoAttackResult",
    "BoundAttack",
    "Engine",
    "Linf",
    "Model",
    "Nearest",
    "Objective",
    "Outputs",
    "PaperCarliniWagner",
    "Passes",
    "Prepared",
    "Progress",
    "Spent",
    "TargetPolicy",
    "Targets",
    "Threat",
    "Transferred",
    "Transformed",
    "angle_grid",
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
    "paper_mim",
    "paper_noise",
    "paper_objective",
    "paper_pgd",
    "paper_rotation",
    "paper_spsa",
    "parse_epsilon",
    "pgd",
    "prepare",
    "random_rotation",
    "rotate",
    "rotation_grid",
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
