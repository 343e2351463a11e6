"""From a trained head to the contours of its loss, where these have a closed form."""

from jaxtyping import Float
from torch import Tensor

from maxmahal.density.contours import CenterSpheres, Contours, PairHyperplanes, pair_contours
from maxmahal.models import Head

HeadContours = Contours | PairHyperplanes | None


def head_centers(head: Head) -> Float[Tensor, "l d"] | None:
    """The point that stands for each class; for SCE ½W, as the paper reads its logits (Sec. 3.2); None if unknown."""
    centers, logits = head.class_centers, head.quadratic_logits
    if centers is None and logits is not None:
        centers = logits.centers
    return None if centers is None else centers.detach()


def head_contours(head: Head, label: int, runner_up: int) -> HeadContours:
    """The level sets of the head's loss for class k (against k̃, where it matters); None without a closed form."""
    if (loss := head.distance_loss) is not None:
        return CenterSpheres(loss.centers[label].detach().double(), loss.scale, float(loss.shifts[label]))
    if (logits := head.quadratic_logits) is not None:
        return pair_contours(*(each.detach().double()[[label, runner_up]] for each in logits))
    return None


def why_none(contours: HeadContours) -> str:
    """Why no density can be counted between these contours; empty if it can."""
    if contours is None:
        return "no closed form"
    return "contours are planes" if isinstance(contours, PairHyperplanes) else ""
