"""Do gradients exist, are they finite and not zero, and do they predict what the model does?"""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from maxmahal.attacks import Outputs, margin
from maxmahal.attacks.model_outputs import model_errors
from maxmahal.attacks.oracle import default_batch_size
from maxmahal.evaluate.diagnose.probe import Probe, check, in_batches, passed, percent, share, warning
from maxmahal.random import derive, normal
from maxmahal.records import Finding

# Of the correctly classified samples. An image for which no unit of a network is active is rare.
FLAG_FLAT = 0.05
# Of the same. exp(-gap) leaves float32 only beyond a gap of about 100, which cross-entropy training does not reach; MMC
# does, on half of the images or more. After adversarial training it still does on a sixth of them, and attacks that
# start elsewhere in the ball lose nothing by it: the comparison of objectives shows if such a small share matters.
FLAG_SATURATED = 0.3
STEP = 0.25  # of epsilon: small beside the ball, large beside a ripple that is meant to hide the slope under it
DIRECTIONS = 8
# Of the samples: a useless gradient is better than eight random directions in one of nine cases, a useful one almost
# always.
FLAG_DIRECTION = 0.7
_REMEDY = "Attack through straight-through gradients, and by queries alone (Square, SPSA)."
_ADDS = ("straight-through", "black-box")


@check("zero-gradients", "Gradients that are exactly zero")
def check_zero_gradients(probe: Probe) -> Finding:
    """Input gradients as attacks of other libraries see them: plain float32, without rescaling."""
    if not isinstance(probe.model, nn.Module):
        return _no_path("The model is a function, so there is no gradient to follow")
    if not probe.has_gradients:
        return _no_path(
            "No gradient reaches the images: a step inside the model cannot be differentiated, and white-box attacks "
            "cannot even start"
        )
    if not bool(probe.is_right.any()):
        return passed("The model classifies none of these images correctly, so there is nothing to attack.")
    entropy, _ = _useless(probe, lambda logits, labels: nn.functional.cross_entropy(logits, labels))
    flat, gaps = _useless(probe, _margins)
    numbers = {"cross_entropy": share(entropy), "margin": share(flat)}
    not_finite = share(gaps)
    if not_finite > FLAG_FLAT:
        sentence = (
            f"The gradient of the margin is NaN or infinite, in some pixels at least, for {percent(not_finite)} of the "
            "images: a step inside the model, such as a root of 0 or a division by 0, has no derivative there, so an "
            "attack that follows gradients cannot use these pixels."
        )
        numbers["not_finite"] = not_finite
        return warning(sentence, _REMEDY, _ADDS, numbers, title="Gradients that are NaN or infinite")
    if numbers["margin"] > FLAG_FLAT:
        sentence = (
            f"The gradient of the margin is exactly zero for {percent(numbers['margin'])} of the images: a step inside "
            "the model is flat almost everywhere, so an attack that follows gradients does not move."
        )
        return warning(sentence, _REMEDY, _ADDS, numbers)
    if numbers["cross_entropy"] > FLAG_SATURATED:
        sentence = (
            f"The cross-entropy's gradient is exactly zero for {percent(numbers['cross_entropy'])} of the images, the "
            f"margin's for {percent(numbers['margin'])}: the logits are so far apart that float32 rounds the softmax "
            "to 0 and 1, and attacks on the cross-entropy do not move."
        )
        remedy = "Attack an objective that does not saturate: the margin or the difference of logits ratio."
        return warning(sentence, remedy, ("scale-free",), numbers)
    return passed(
        f"The gradient is exactly zero for {percent(numbers['cross_entropy'])} of the images with the cross-entropy "
        f"and {percent(numbers['margin'])} with the margin, so attacks can follow it, as they should.",
        numbers,
    )


@check("gradient-direction", "Gradients against measured changes")
def check_gradient_direction(probe: Probe) -> Finding:
    """A step against the margin's gradient, compared with steps of the same size in random directions."""
    if not probe.has_gradients or not bool(probe.is_right.any()):
        return passed("Not applicable: there is no gradient whose direction could be compared.")
    rows = probe.is_right.nonzero().squeeze(1)
    images, labels, ids = probe.images[rows], probe.labels[rows], probe.sample_ids[rows]
    start = probe.threat.random_start(images, ids, "gradient-direction", probe.seed)
    step = STEP * probe.threat.radius
    model = partial(_same_draws, probe)
    before, gradient = _gradients(model, start, labels, _margins)
    gradient = gradient.nan_to_num(0.0, 0.0, 0.0)
    steps = [gradient]
    for number in range(DIRECTIONS):
        drawn = derive(ids, torch.full_like(ids, number))
        steps.append(normal(drawn, images.shape[1:], "gradient-direction", probe.seed).to(images.dtype))
    moves = [probe.threat.project(images, probe.threat.descend(start, each, step)) for each in steps]
    falls = torch.stack([before - _margins(in_batches(model, moved), labels) for moved in moves])
    predicted = (gradient * (start - moves[0])).flatten(1).sum(dim=1)
    better = share(falls[0] > falls[1:].amax(dim=0))
    ratio = float((falls[0] / predicted.clamp_min(torch.finfo(predicted.dtype).tiny)).median())
    numbers = {"better_than_random": better, "measured_over_foretold": ratio, "directions": DIRECTIONS}
    seen = (
        f"A small step against the gradient lowers the margin more than {DIRECTIONS} random directions for "
        f"{percent(better)} of the images (by chance: {percent(1 / (DIRECTIONS + 1))}), by {ratio:.2f} times what the "
        "gradient predicts"
    )
    if better >= FLAG_DIRECTION:
        return passed(f"{seen}: gradients are informative, as they should be.", numbers)
    sentence = f"{seen}: gradients say little about the model, so attacks that follow them fail."
    return warning(sentence, _REMEDY, _ADDS, numbers)


def _no_path(what: str) -> Finding:
    remedy = "Attack through straight-through gradients where the step can be replaced, and by queries alone."
    return warning(f"{what}.", remedy, _ADDS)


def _same_draws(probe: Probe, images: Tensor) -> Tensor:
    """The logits, with the same random numbers in every call of a stochastic model."""
    torch.manual_seed(probe.keyed("gradient-direction"))
    return probe.model(images)


def _margins(logits: Float[Tensor, "n l"], labels: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    return margin()(Outputs(logits), labels, None)


def _useless(probe: Probe, loss: Callable[[Tensor, Tensor], Tensor]) -> tuple[Bool[Tensor, " n"], Bool[Tensor, " n"]]:
    """For each correct image, whether its gradient is zero wherever it is finite, and whether it is not all finite."""
    _, gradient = _gradients(probe.model, probe.images[probe.is_right], probe.labels[probe.is_right], loss)
    zero = (gradient.nan_to_num(0.0, 0.0, 0.0) == 0).flatten(1).all(dim=1)
    return zero, ~gradient.isfinite().flatten(1).all(dim=1)


def _gradients(
    model: Callable[[Tensor], Tensor],
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    loss: Callable[[Tensor, Tensor], Tensor],
) -> tuple[Tensor, Float[Tensor, "n c h w"]]:
    """The losses and their gradients, in batches that suit the device."""
    values, gradients = [], []
    size = default_batch_size(images)
    for part, answers in zip(torch.split(images, size), torch.split(labels, size), strict=True):
        moved = part.detach().clone().requires_grad_()
        with torch.enable_grad(), model_errors(model, part):
            losses = loss(model(moved), answers)
            gradients.append(torch.autograd.grad(losses.sum(), moved)[0])
        values.append(losses.detach().reshape(-1))
    return torch.cat(values), torch.cat(gradients)
