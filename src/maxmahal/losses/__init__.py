"""Losses: a functional core, and heads that hold centers and weights. Every head has the same call shape."""

from maxmahal.losses.angular import ArcFace, CosFace, arcface_loss, cosface_loss
from maxmahal.losses.center import CenterLoss, center_loss, updated_centers
from maxmahal.losses.center_head import CenterHead
from maxmahal.losses.emc import EMC, emc_loss
from maxmahal.losses.gsce import GSCE, center_logits, gsce_loss, quadratic_logits
from maxmahal.losses.lgm import LGM, lgm_logits, lgm_loss
from maxmahal.losses.mmc import MMC, absolute_mmc_loss, huber_mmc_loss, mmc_loss, pairing_loss
from maxmahal.losses.mmlda import MMLDA, mmlda_loss
from maxmahal.losses.registry import LOSSES, check_own_loss, takes_centers
from maxmahal.losses.softmax import SCE, sce_loss

__all__ = [
    "EMC",
    "GSCE",
    "LGM",
    "LOSSES",
    "MMC",
    "MMLDA",
    "SCE",
    "ArcFace",
    "CenterHead",
    "CenterLoss",
    "CosFace",
    "absolute_mmc_loss",
    "arcface_loss",
    "center_logits",
    "center_loss",
    "check_own_loss",
    "cosface_loss",
    "emc_loss",
    "gsce_loss",
    "huber_mmc_loss",
    "lgm_logits",
    "lgm_loss",
    "mmc_loss",
    "mmlda_loss",
    "pairing_loss",
    "quadratic_logits",
    "sce_loss",
    "takes_centers",
    "updated_centers",
]


def __dir__() -> list[str]:
    """The public names alone: each file of the package is an attribute of it as well."""
    return list(__all__)
