"""What an attacker may do to an image: how far, in which norm, within which bounds."""

import math
import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from maxmahal.errors import ArgumentError
from maxmahal.random import normal, uniform

Images = Float[Tensor, "n c h w"]
StepSize = float | Float[Tensor, " n"]
"""One for all samples, or one per sample."""
Bounds = tuple[float, float]
UNIT: Bounds = (0.0, 1.0)
ANY_BOUNDS: Bounds = (-math.inf, math.inf)
LEAST_NORM = 1e-33
"""A smaller gradient counts as zero: float32 cannot hold an image's size divided by its norm."""


def parse_epsilon(epsilon: str | float, name: str = "epsilon", largest: float = 1.0) -> float:
    """A distance in units of the pixel range, a number or text such as ``"8/255"``; errors call it ``name``."""
    try:
        if isinstance(epsilon, str) and not re.fullmatch(r"[^eE]{1,50}([eE][+-]?\d{1,3})?", epsilon):
            raise ValueError("its digits would fill the memory")
        value = float(Fraction(epsilon)) if isinstance(epsilon, str) else float(epsilon)
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        raise ArgumentError(f"{name} must be a number or a fraction such as 8/255; got '{epsilon}'.") from error
    if not (0 < value <= largest and math.isfinite(value)):
        hint = f" Did you mean {value:g}/255?" if 1 < value < 256 else ""
        shown = epsilon if isinstance(epsilon, str) else f"{value:g}"
        if math.isinf(largest):
            raise ArgumentError(f"{name} must be positive and finite; got {shown}.")
        raise ArgumentError(f"{name} must lie in (0, {largest:g}] because images do; got {shown}.{hint}")
    return value


def per_sample(values: Shaped[Tensor, " n"]) -> Shaped[Tensor, "n 1 1 1"]:
    """One number per sample, ready to multiply images or to choose between them."""
    return values[:, None, None, None]


def norms(differences: Images) -> Float[Tensor, " n"]:
    """The Euclidean norm of each image; in float64, because squares of gradients may leave float32."""
    return torch.linalg.vector_norm(differences.flatten(1), dim=1, dtype=torch.float64).to(differences.dtype)


def find_step_size(step_size: str | float | None, threat: "Threat", steps: int) -> float:
    """A step size as it was given; None means one that crosses the ball in ``steps`` and can still settle in it."""
    if step_size is None:
        return max(2.5 / max(steps, 1), 0.05) * threat.radius
    return parse_epsilon(step_size, "step_size", math.inf) if isinstance(step_size, str) else step_size


@runtime_checkable
class Threat(Protocol):
    """A ball around each image, cut off at the bounds of pixels."""

    @property
    def radius(self) -> float:
        """Epsilon as a number."""

    @property
    def bounds(self) -> Bounds:
        """The smallest and the largest value of a pixel."""

    def project(self, images: Images, moved: Images) -> Images:
        """An allowed image close to ``moved``."""

    def random_start(self, images: Images, sample_ids: Int[Tensor, " n"], *key: int | str) -> Images:
        """A random allowed image that belongs to the sample."""

    def descend(self, moved: Images, gradient: Images, step_size: StepSize) -> Images:
        """One step of steepest descent in this norm; not yet projected."""

    def distances(self, images: Images, moved: Images) -> Float[Tensor, " n"]:
        """How far each image was moved, in this norm."""


def as_threat(threat: Threat | str | float) -> Threat:
    """A threat as it is; a number, or text such as ``"8/255"``, is the epsilon of an L∞ ball."""
    if isinstance(threat, str | float | int):
        return Linf(threat)
    if not isinstance(threat, Threat):
        raise ArgumentError(
            f"threat must be an epsilon such as '8/255', or a threat such as Linf('8/255') or L2(0.5); got {threat!r}."
        )
    return threat


@dataclass(frozen=True)
class _Ball:
    epsilon: str | float
    bounds: Bounds = UNIT

    radius: float = field(init=False, repr=False, compare=False)
    """``epsilon`` as a number."""

    def __post_init__(self) -> None:
        check_bounds(self.bounds)
        largest = self.bounds[1] - self.bounds[0] if isinstance(self, Linf) else math.inf
        object.__setattr__(self, "radius", parse_epsilon(self.epsilon, largest=largest))

    def __str__(self) -> str:
        norm, written = "Linf" if isinstance(self, Linf) else "L2", self.epsilon
        if isinstance(written, str):
            return f"{norm} {written}"
        steps = round(255 * written)
        return f"{norm} {steps}/255" if steps < 255 and steps / 255 == written else f"{norm} {written:g}"


@dataclass(frozen=True)
class Linf(_Ball):
    """Every pixel may move by at most ``epsilon``; ``"8/255"`` is accepted and kept as it was written."""

    def project(self, images: Images, moved: Images) -> Images:
        """The nearest allowed image: inside the ball around the original, and inside the bounds."""
        # Clamping between precomputed bounds: a clamped difference that is added to the image is rounded once more.
        low, high = self.bounds
        return moved.clamp((images - self.radius).clamp_min_(low), (images + self.radius).clamp_max_(high))

    def random_start(self, images: Images, sample_ids: Int[Tensor, " n"], *key: int | str) -> Images:
        """A uniform point of the ball, projected; each sample's point belongs to the sample."""
        noise = uniform(sample_ids, images.shape[1:], *key).to(images.dtype)
        return self.project(images, images + self.radius * (2 * noise - 1))

    def descend(self, moved: Images, gradient: Images, step_size: StepSize) -> Images:
        """Every pixel moves by the step size, against the sign of its gradient."""
        step = per_sample(step_size) if isinstance(step_size, Tensor) else step_size
        return moved - step * gradient.sign()

    def distances(self, images: Images, moved: Images) -> Float[Tensor, " n"]:
        """The largest move of a pixel."""
        return (moved - images).abs().flatten(1).amax(dim=1)


@dataclass(frozen=True)
class L2(_Ball):
    """The whole image may move by at most ``epsilon`` in the Euclidean norm."""

    def project(self, images: Images, moved: Images) -> Images:
        """Back to the ball along the ray, then to the bounds: allowed, though not always the nearest such image."""
        change = moved - images
        # Slightly inside, so that adding the change to the image cannot round it out of the ball.
        largest = 2.0 ** math.ceil(math.log2(max(map(abs, self.bounds))))
        rounding = 2.0**-25 * largest * math.sqrt(math.prod(images.shape[1:]))
        allowed = max(self.radius * (1 - 1e-6) - rounding, 0.0)
        shrink = (allowed / norms(change).clamp_min(LEAST_NORM)).clamp_max_(1)
        return (images + per_sample(shrink) * change).clamp_(*self.bounds)

    def random_start(self, images: Images, sample_ids: Int[Tensor, " n"], *key: int | str) -> Images:
        """A uniform point of the ball, projected; each sample's point belongs to the sample."""
        direction = normal(sample_ids, images.shape[1:], *key, "direction").to(images.dtype)
        share = uniform(sample_ids, (), *key, "length").to(images.dtype) ** (1 / max(math.prod(images.shape[1:]), 1))
        lengths = self.radius * share / norms(direction).clamp_min(LEAST_NORM)
        return self.project(images, images + per_sample(lengths) * direction)

    def descend(self, moved: Images, gradient: Images, step_size: StepSize) -> Images:
        """The image moves by the step size along its normalised gradient; where that is zero it stays."""
        return moved - per_sample(step_size / norms(gradient).clamp_min(LEAST_NORM)) * gradient

    def distances(self, images: Images, moved: Images) -> Float[Tensor, " n"]:
        """The Euclidean length of each move."""
        return norms(moved - images)


def as_ball(threat: Threat | str | float, attack: str) -> Linf | L2:
    """The same for an attack that knows these two alone, and no subclass, which may allow less."""
    ball = as_threat(threat)
    if isinstance(ball, Linf | L2) and type(ball) in (Linf, L2):
        return ball
    raise ArgumentError(f"{attack} knows the threats Linf and L2; got {threat!r}.")


def check_bounds(bounds: Bounds) -> None:
    """Refuse a pixel range that holds nothing."""
    low, high = bounds
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ArgumentError(f"bounds must be two finite numbers, the smaller first; got ({low:g}, {high:g}).")
