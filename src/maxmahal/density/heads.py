"""From a trained head to the contours of its loss, where these have a closed form."""

import torch
from jaxtyping import Float
from torch import Tensor

from maxmahal.density.contours import CenterSpheres, Contours, PairHyperplanes, pair_contours
from maxmahal.losses import EMC, GSCE, LGM, MMC, MMLDA, SCE, CenterLoss
from maxmahal.losses.center_head import CenterHead
from maxmahal.models import Head

HeadContours = Contours | PairHyperplanes | None


def head_centers(head: Head) -> Float[Tensor, "l d"] | None:
    """The point that stands for each class; for SCE ½W, as the paper reads its logits (Sec. 3.2); None if unknown."""
    if isinstance(head, SCE):
        return 0.5 * head.linear.weight.detach()
    if isinstance(head, EMC):
        return head.moved_centers.detach()
    if isinstance(head, CenterHead | CenterLoss | GSCE | LGM):
        return head.centers.detach()
    return None


def head_contours(head: Head, label: int, runner_up: int) -> HeadContours:
    """The level sets of the head's loss for class k (against k̃, where it matters); None without a closed form."""
    if isinstance(head, MMC):
        return CenterSpheres(head.centers[label].double(), float(head.scale)) if head.form == "squared" else None
    if isinstance(head, EMC):
        shift = 0.5 * float(head.offsets[label].detach().double().square().sum())
        return CenterSpheres(head.moved_centers[label].detach().double(), float(head.scale), shift)
    if isinstance(head, CenterLoss):
        alone = head.linear is None and head.weight > 0
        return CenterSpheres(head.centers[label].double(), head.weight) if alone else None
    quadratic = _quadratic(head)
    if quadratic is None:
        return None
    centers, precisions, biases = (each.detach().double()[[label, runner_up]] for each in quadratic)
    return pair_contours(centers, precisions, biases)


def why_none(contours: HeadContours) -> str:
    """What keeps a density from being counted between these contours; empty where nothing does."""
    if contours is None:
        return "no closed form"
    return "contours are planes" if isinstance(contours, PairHyperplanes) else ""


def _quadratic(head: Head) -> tuple[Tensor, Tensor, Tensor] | None:
    """Centers, precisions and biases of heads whose loss is g-SCE with quadratic logits (Eq. 3 and 4)."""
    if isinstance(head, GSCE):
        return head.centers, head.log_precisions.exp(), head.biases
    if isinstance(head, SCE):
        weight = head.linear.weight
        return 0.5 * weight, torch.ones(len(weight)), head.linear.bias + 0.25 * weight.square().sum(dim=1)
    if isinstance(head, MMLDA):
        return head.centers, 0.5 * head.scale * torch.ones(len(head.centers)), torch.zeros(len(head.centers))
    return None
