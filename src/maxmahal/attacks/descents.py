"""What the attacks share that descend several times from several points, each sample at its own pace."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from maxmahal.attacks.oracle import Look
from maxmahal.attacks.samples import Samples
from maxmahal.attacks.threats import norms, per_sample
from maxmahal.random import derive, normal, uniform


def succeeds(samples: Samples, look: Look, confidence: float = 0.0) -> Bool[Tensor, " n"]:
    """Whether the prediction is what the attacker wants and, with a confidence, the objective that far down."""
    success = samples.ranks(look.predictions) >= samples.goal
    return success & (look.values <= -confidence) if confidence else success


def cosine(taken: Int[Tensor, " n"], length: int) -> Float[Tensor, " n"]:
    """From 1 at the first step of a descent towards 0 at its end."""
    return 0.5 * (1 + (torch.pi / length * (taken % length)).cos())


def random_points(
    samples: Samples, radii: Float[Tensor, " n"], norm: str, counters: Int[Tensor, " n"], *key: int | str
) -> Float[Tensor, "n c h w"]:
    """Points around the images, not yet clamped: on the L2 sphere or in the L∞ ball of each sample's own radius."""
    ids = derive(samples.ids, counters)
    images = samples.images
    if norm == "linf":
        return images + per_sample(radii) * (2 * uniform(ids, images.shape[1:], *key).to(images.dtype) - 1)
    directions = normal(ids, images.shape[1:], *key).to(images.dtype)
    return images + per_sample(radii / norms(directions).clamp_min(1e-30)) * directions
