"""What an attacker may do to an image: how far, in which norm, within which bounds."""

import math
from dataclasses import dataclass
from fractions import Fraction

from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.errors import ArgumentError
from maxmahal.random import uniform


def parse_epsilon(epsilon: str | float, name: str = "epsilon") -> float:
    """A distance in units of the pixel range, a number or text such as ``"8/255"``; errors call it ``name``."""
    try:
        value = float(Fraction(epsilon)) if isinstance(epsilon, str) else float(epsilon)
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        raise ArgumentError(f"{name} must be a number or a fraction such as 8/255; got '{epsilon}'.") from error
    if not (0 < value <= 1 and math.isfinite(value)):
        hint = f" Did you mean {value:g}/255?" if 1 < value < 256 else ""
        shown = epsilon if isinstance(epsilon, str) else f"{value:g}"
        raise ArgumentError(f"{name} must lie in (0, 1] because images do; got {shown}.{hint}")
    return value


@dataclass(frozen=True)
class Linf:
    """Every pixel may move by at most ``epsilon``; ``"8/255"`` is accepted and kept as it was written."""

    epsilon: str | float

    def __post_init__(self) -> None:
        parse_epsilon(self.epsilon)

    @property
    def radius(self) -> float:
        """``epsilon`` as a number."""
        return parse_epsilon(self.epsilon)

    def project(self, images: Float[Tensor, "n c h w"], moved: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
        """The nearest allowed image: inside the ball around the original, and inside [0, 1]."""
        # Clamping between precomputed bounds (not adding a clamped difference) keeps the result inside to the last bit.
        return moved.clamp((images - self.radius).clamp_min(0), (images + self.radius).clamp_max(1))

    def random_start(
        self, images: Float[Tensor, "n c h w"], sample_ids: Int[Tensor, " n"], *key: int | str
    ) -> Float[Tensor, "n c h w"]:
        """A uniform point of the ball, projected; each sample's point belongs to the sample."""
        noise = uniform(sample_ids, images.shape[1:], *key).to(images.dtype)
        return self.project(images, images + self.radius * (2 * noise - 1))

    def descend(
        self, moved: Float[Tensor, "n c h w"], gradient: Float[Tensor, "n c h w"], step_size: float
    ) -> Float[Tensor, "n c h w"]:
        """One step of steepest descent in this norm."""
        return moved - step_size * gradient.sign()
