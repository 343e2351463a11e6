"""Is there a gradient to follow, is it a number, and does the cross-entropy keep it?"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from maxmahal.attacks import Outputs, margin
from maxmahal.attacks.oracle import default_batch_size
from maxmahal.evaluate.diagnose.probe import Probe, isolated
from maxmahal.evaluate.diagnose.trials import percent
from maxmahal.records import Finding

TITLE = "Gradients that are exactly zero"
TITLE_NOT_FINITE = "Gradients that are NaN or infinite"
# Of the samples that the model gets right. A network in which no unit is active for an image is rare.
FLAG_FLAT = 0.05
# Of the same. exp(-gap) leaves float32 only beyond a gap of about 100, which cross-entropy training does not reach; MMC
# does, on half of the images or more. Trained adversarially it still does on a sixth of them, and attacks that start
# elsewhere in the ball lose nothing by it: where so few do harm, the check of the objectives sees it.
FLAG_SATURATED = 0.3
_AROUND = "Attack through straight-through gradients, and by queries alone (Square, SPSA)."


@isolated("zero-gradients")
def check_zero_gradients(probe: Probe) -> Finding:
    """Input gradients as other libraries' attacks see them: plain float32, without rescaling."""
    if not isinstance(probe.model, nn.Module):
        return _no_path("The model is a function, so there is no gradient to follow")
    if not probe.has_gradients:
        return _no_path(
            "No gradient reaches the images: a step inside the model cannot be differentiated, and white-box attacks "
            "cannot even start"
        )
    if not bool(probe.is_right.any()):
        sentence = "The model gets none of these images right, so there is nothing to attack."
        return Finding("zero-gradients", TITLE, False, sentence, "")
    entropy, _ = _useless(probe, probe.model, lambda logits, labels: nn.functional.cross_entropy(logits, labels))
    flat, gaps = _useless(probe, probe.model, lambda logits, labels: margin()(Outputs(logits), labels, None).sum())
    numbers = {"cross_entropy": float(entropy.double().mean()), "margin": float(flat.double().mean())}
    not_finite = float(gaps.double().mean())
    if not_finite > FLAG_FLAT:
        return _not_finite(numbers | {"not_finite": not_finite})
    if numbers["margin"] > FLAG_FLAT:
        sentence = (
            f"The gradient of the margin is exactly zero for {percent(numbers['margin'])} of the images: a step inside "
            "the model is flat almost everywhere, so an attack that follows gradients stands still."
        )
        return Finding("zero-gradients", TITLE, True, sentence, _AROUND, ("straight-through", "black-box"), numbers)
    if numbers["cross_entropy"] > FLAG_SATURATED:
        sentence = (
            f"The cross-entropy's gradient is exactly zero for {percent(numbers['cross_entropy'])} of the images, the "
            f"margin's for {percent(numbers['margin'])}: the logits are so far apart that float32 rounds the softmax "
            "to 0 and 1, and attacks on the cross-entropy do not move."
        )
        remedy = "Attack an objective that does not saturate: the margin or the difference of logits ratio."
        return Finding("zero-gradients", TITLE, True, sentence, remedy, ("scale-free",), numbers)
    sentence = (
        f"The gradient is exactly zero for {percent(numbers['cross_entropy'])} of the images by the cross-entropy and "
        f"{percent(numbers['margin'])} by the margin, so attacks have something to follow, as they should."
    )
    return Finding("zero-gradients", TITLE, False, sentence, "", (), numbers)


def _no_path(what: str) -> Finding:
    remedy = "Attack through straight-through gradients where the step can be replaced, and by queries alone."
    return Finding("zero-gradients", TITLE, True, f"{what}.", remedy, ("straight-through", "black-box"))


def _not_finite(numbers: dict[str, float]) -> Finding:
    sentence = (
        f"The gradient of the margin is NaN or infinite, in some pixels at least, for {percent(numbers['not_finite'])} "
        "of the images: a step inside the model, such as a root of 0 or a division by 0, has no derivative there, so "
        "an attack that follows gradients is blind in these pixels or goes astray."
    )
    adds = ("straight-through", "black-box")
    return Finding("zero-gradients", TITLE_NOT_FINITE, True, sentence, _AROUND, adds, numbers)


def _useless(
    probe: Probe, model: nn.Module, loss: Callable[[Tensor, Tensor], Float[Tensor, ""]]
) -> tuple[Bool[Tensor, " n"], Bool[Tensor, " n"]]:
    """Whether each right image's gradient is zero wherever it is finite, and whether it is not finite anywhere."""
    images, labels = probe.images[probe.is_right], probe.labels[probe.is_right]
    zero, gaps = [], []
    size = default_batch_size(images)
    for part, answers in zip(torch.split(images, size), torch.split(labels, size), strict=True):
        moved = part.detach().clone().requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(loss(model(moved), answers), moved)
        zero.append((gradient.nan_to_num(0.0, 0.0, 0.0) == 0).flatten(1).all(dim=1))
        gaps.append(~gradient.isfinite().flatten(1).all(dim=1))
    return torch.cat(zero), torch.cat(gaps)
