"""Does the gradient foretell what the model does?"""

import torch
from jaxtyping import Float
from torch import Tensor

from maxmahal.attacks import Outputs, margin
from maxmahal.attacks.oracle import default_batch_size
from maxmahal.evaluate.diagnose.probe import Probe, in_batches, isolated
from maxmahal.evaluate.diagnose.trials import percent, share
from maxmahal.random import derive, normal
from maxmahal.records import Finding

TITLE = "Gradients against what they foretell"
STEP = 0.25  # of epsilon: small beside the ball, large beside a ripple that is meant to hide the slope under it
DIRECTIONS = 8
# Of the samples: a gradient that means nothing beats eight random directions once in nine times, an honest one almost
# always.
FLAG_SHARE = 0.7


@isolated("gradient-direction")
def check_gradient_direction(probe: Probe) -> Finding:
    """A step against the margin's gradient beside steps of the same size in random directions."""
    if not probe.has_gradients or not bool(probe.is_right.any()):
        sentence = "Not applicable: there is no gradient whose direction could be compared with the model's answers."
        return Finding("gradient-direction", TITLE, False, sentence, "")
    rows = probe.is_right.nonzero().squeeze(1)
    images, labels, ids = probe.images[rows], probe.labels[rows], probe.sample_ids[rows]
    start = probe.threat.random_start(images, ids, "gradient-direction", probe.seed)
    step = STEP * probe.threat.radius
    before, gradient = _margins_and_gradient(probe, start, labels)
    steps = [gradient]
    for number in range(DIRECTIONS):
        drawn = derive(ids, torch.full_like(ids, number))
        steps.append(normal(drawn, images.shape[1:], "gradient-direction", probe.seed).to(images.dtype))
    moves = [probe.threat.project(images, probe.threat.descend(start, each, step)) for each in steps]
    falls = torch.stack([before - _margins(probe, moved, labels) for moved in moves])
    foretold = (gradient * (start - moves[0])).flatten(1).sum(dim=1)
    better = share(falls[0] > falls[1:].amax(dim=0))
    ratio = float((falls[0] / foretold.clamp_min(torch.finfo(foretold.dtype).tiny)).median())
    numbers = {"better_than_random": better, "measured_over_foretold": ratio, "directions": DIRECTIONS}
    seen = (
        f"A small step against the gradient lowers the margin more than {DIRECTIONS} random directions for "
        f"{percent(better)} of the images (by chance: {percent(1 / (DIRECTIONS + 1))}), by {ratio:.2f} times what the "
        "gradient foretells"
    )
    if better >= FLAG_SHARE:
        sentence = f"{seen}: gradients mean something, as they should."
        return Finding("gradient-direction", TITLE, False, sentence, "", (), numbers)
    sentence = f"{seen}: gradients say little about the model, so attacks that follow them go astray."
    remedy = "Attack through straight-through gradients, and by queries alone (Square, SPSA)."
    return Finding("gradient-direction", TITLE, True, sentence, remedy, ("straight-through", "black-box"), numbers)


def _same_draws(probe: Probe, images: Tensor) -> Tensor:
    """The logits, with the same draws at every call of a model that draws."""
    torch.manual_seed(probe.keyed("gradient-direction"))
    logits: Tensor = probe.model(images)
    return logits


def _margins(probe: Probe, images: Float[Tensor, "n c h w"], labels: Tensor) -> Float[Tensor, " n"]:
    return margin()(Outputs(in_batches(lambda part: _same_draws(probe, part), images)), labels, None)


def _margins_and_gradient(
    probe: Probe, images: Float[Tensor, "n c h w"], labels: Tensor
) -> tuple[Float[Tensor, " n"], Float[Tensor, "n c h w"]]:
    values, gradients = [], []
    size = default_batch_size(images)
    for part, answers in zip(torch.split(images, size), torch.split(labels, size), strict=True):
        moved = part.detach().clone().requires_grad_()
        with torch.enable_grad():
            margins = margin()(Outputs(_same_draws(probe, moved)), answers, None)
            (gradient,) = torch.autograd.grad(margins.sum(), moved)
        values.append(margins.detach())
        gradients.append(gradient.nan_to_num(0.0, 0.0, 0.0))
    return torch.cat(values), torch.cat(gradients)
