"""The checks, cheap ones first, except for the one that plants adversarial examples.

Does the model give the same answer twice? Do gradients exist, and do they predict what the model does? Cross-entropy
should not hide what the margin finds, and black boxes should not break more. The accuracy should fall as epsilon grows,
and more steps or starts should change little.
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from maxmahal.attacks import Engine, Linf, Model, Outputs, margin, prepare
from maxmahal.attacks.engine import Case, run
from maxmahal.attacks.model_outputs import model_errors
from maxmahal.attacks.objectives import CROSS_ENTROPY, MARGIN
from maxmahal.attacks.oracle import default_batch_size, full_float32, in_batches, in_chunks
from maxmahal.attacks.pgd import ProjectedDescent
from maxmahal.evaluate.diagnose.binarization import check_binarization
from maxmahal.evaluate.diagnose.probe import Probe, check, finding, gives_gradients, percent, share
from maxmahal.evaluate.evaluated_model import STOCHASTIC_SHARE, share_that_differs
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
OBJECTIVE_STEPS = 20
# In accuracy. With both objectives the same network is attacked, and on ordinary models, trained adversarially or not,
# the accuracies differ by a few points.
FLAG_GAP = 0.10
QUERIES = 300
TRANSFER_STEPS = 20
# Of all samples. Queries and other models know less than gradients: a few samples are chance, more mean that the
# gradient is misleading.
FLAG_SHARE = 0.03
EPSILON_STEPS = 25
EPSILON_QUERIES = 200
# In accuracy, in the ball in which every image can be made grey: no classifier can be right there, and what is left is
# what the attack did not find. Short attacks may miss a little.
FLAG_LEFT = 0.05
# In accuracy, from one ball to a larger one that contains it: a short attack may lose a few samples by chance.
FLAG_RISE = 0.05
STEPS = (25, 50, 100)
RESTARTS = (1, 2, 4)
RESTART_STEPS = STEPS[1]  # so that the first start is known already
# In accuracy, for the last doubling of the effort: a converged attack gains at most 3.5 points on ordinary models; with
# shattered gradients it gains more.
FLAG_FALL = 0.05


@check("randomness")
def check_randomness(probe: Probe) -> Finding:
    """Two passes of one batch, and a third of the same images in other batches."""
    images = probe.images
    with full_float32(images.device):
        first, second = (in_batches(probe.model, images) for _ in range(2))
        order = torch.arange(len(images) - 1, -1, -1, device=images.device)
        half = max(len(images) // 2, 1)
        apart = torch.cat([in_batches(probe.model, images[part]) for part in torch.split(order, half)])[order]
    again, elsewhere = share_that_differs(first, second), share_that_differs(first, apart)
    changed = share(first.argmax(dim=1) != second.argmax(dim=1))
    numbers = {"differ": again, "differ_in_other_company": elsewhere, "predictions_differ": changed}
    layers = probe.model.named_modules() if isinstance(probe.model, nn.Module) else ()
    training = [name or type(module).__name__ for name, module in layers if module.training]
    hint = f" These layers are still in train mode: {', '.join(training[:5])}." if training else ""
    case = "stochastic" if again > STOCHASTIC_SHARE else "batch" if elsewhere > STOCHASTIC_SHARE else "calm"
    return finding("randomness", case, numbers, hint=hint)


@check("zero-gradients")
def check_zero_gradients(probe: Probe) -> Finding:
    """Input gradients as attacks of other libraries see them: plain float32, without rescaling."""
    if not isinstance(probe.model, nn.Module):
        return finding("zero-gradients", "function")
    if not probe.has_gradients:
        return finding("zero-gradients", "blocked")
    if not bool(probe.is_right.any()):
        return finding("zero-gradients", "wrong")
    entropy, _ = _useless(probe, lambda logits, labels: nn.functional.cross_entropy(logits, labels))
    flat, gaps = _useless(probe, _margins)
    numbers = {"cross_entropy": share(entropy), "margin": share(flat)}
    if share(gaps) > FLAG_FLAT:
        return finding("zero-gradients", "not-finite", {**numbers, "not_finite": share(gaps)})
    if numbers["margin"] > FLAG_FLAT:
        return finding("zero-gradients", "flat", numbers)
    return finding("zero-gradients", "saturated" if numbers["cross_entropy"] > FLAG_SATURATED else "calm", numbers)


@check("gradient-direction")
def check_gradient_direction(probe: Probe) -> Finding:
    """A step against the margin's gradient, compared with steps of the same size in random directions."""
    if not probe.has_gradients or not bool(probe.is_right.any()):
        return finding("gradient-direction", "none")
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
    case = "calm" if better >= FLAG_DIRECTION else "misleading"
    return finding("gradient-direction", case, numbers, chance=1 / (DIRECTIONS + 1))


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

    def work(start: int, stop: int) -> tuple[Tensor, Tensor]:
        moved = images[start:stop].detach().clone().requires_grad_()
        with torch.enable_grad(), model_errors(model, moved):
            losses = loss(model(moved), labels[start:stop])
            (gradient,) = torch.autograd.grad(losses.sum(), moved)
        return losses.detach().reshape(-1), gradient

    parts, _ = in_chunks(len(images), default_batch_size(images), work)
    values, gradients = zip(*parts, strict=True)
    return torch.cat(values), torch.cat(gradients)


@check("objective-gap")
def check_objective_gap(probe: Probe) -> Finding:
    """The same PGD with each of the two."""
    if not probe.has_gradients:
        return finding("objective-gap", "none")
    entropy = share(~probe.plain_descent(CROSS_ENTROPY, steps=OBJECTIVE_STEPS))
    other = share(~probe.plain_descent(MARGIN, steps=OBJECTIVE_STEPS))
    numbers = {"cross_entropy": entropy, "margin": other, "steps": OBJECTIVE_STEPS}
    return finding("objective-gap", "weak" if entropy - other > FLAG_GAP else "calm", numbers)


@check("black-box-wins")
def check_black_box(probe: Probe) -> Finding:
    """Square and transfer on the samples that white-box attacks do not break."""
    robust = probe.is_right.clone()
    if probe.has_gradients:
        # Attacks that other checks run too: they are shared.
        for objective in (MARGIN, CROSS_ENTROPY):
            robust &= ~probe.plain_descent(objective, steps=OBJECTIVE_STEPS, among=robust)
        for objective in (MARGIN, CROSS_ENTROPY):
            robust &= ~probe.auto_descent(objective, steps=EPSILON_STEPS, among=robust)
        for start in range(2):
            robust &= ~probe.auto_descent(MARGIN, steps=RESTART_STEPS, start=start, among=robust)
    substitutes = {name: other for name, other in probe.others.items() if gives_gradients(other, probe.images)}
    squares = probe.random_squares(queries=QUERIES, among=robust)
    by_source = {name: robust & _transferred(probe, name, other) for name, other in substitutes.items()}
    transferred = torch.stack([torch.zeros_like(robust), *by_source.values()]).any(dim=0)
    numbers = {
        "white_box": share(robust),
        "square": share(squares),
        "transfer": share(transferred),
        "substitutes": len(substitutes),
        "sources": [name for name, fooled in by_source.items() if probe.is_many(share(fooled), FLAG_SHARE)],
    }
    seen = f"The accuracy under white-box attacks is {percent(share(robust))}"
    if not probe.has_gradients:
        seen = "White-box attacks need gradients, and this model has none"
    seen += f"; of all images, {QUERIES} queries of Square break another {percent(share(squares))}"
    if substitutes:
        seen += f" and images crafted on other models ({len(substitutes)}) {percent(share(transferred))}"
    if not probe.is_many(share(squares | transferred), FLAG_SHARE):
        return finding("black-box-wins", "calm", numbers, seen=seen)
    adds = ("black-box", "straight-through") + (("transfer",) if numbers["sources"] else ())
    return finding("black-box-wins", "misleading", numbers, adds, seen=seen)


def _transferred(probe: Probe, name: str, source: Model) -> Bool[Tensor, " n"]:
    """Whether the last image of PGD on another model breaks this model too."""
    step_size = 2.5 * probe.threat.radius / TRANSFER_STEPS
    method = ProjectedDescent(probe.threat, TRANSFER_STEPS, step_size, probe.keyed("transfer", name))
    parts = (*source.parameters(), *source.buffers()) if isinstance(source, nn.Module) else ()
    device = next((part.device for part in parts), probe.images.device)
    case = Case(probe.images.to(device), probe.labels.to(device), probe.seed, probe.sample_ids.to(device))
    search = prepare(source) if isinstance(source, nn.Module) else source
    # To the last step: images just across the other model's boundary seldom transfer.
    engine = Engine(progress=probe.progress)
    crafted = run(method, search, case, objective=MARGIN, engine=engine, keep="last", bounds=probe.threat.bounds)
    return in_batches(probe.model, crafted.images.to(probe.images.device)).argmax(dim=1) != probe.labels


@check("epsilon-growth")
def check_epsilon_growth(probe: Probe) -> Finding:
    """One short strong attack at each of several epsilons."""
    epsilons = _epsilons(probe)
    accuracies = [share(probe.is_right)] + [_accuracy(probe, epsilon) for epsilon in epsilons[1:]]
    numbers = {"epsilons": epsilons, "accuracies": accuracies}
    rise, place = max((after - before, i) for i, (before, after) in enumerate(pairwise(accuracies)))
    if probe.is_many(accuracies[-1], FLAG_LEFT):
        return finding("epsilon-growth", "left", numbers, last=epsilons[-1], left=accuracies[-1])
    if probe.is_many(rise, FLAG_RISE):
        (small, large), (before, after) = epsilons[place : place + 2], accuracies[place : place + 2]
        return finding("epsilon-growth", "rises", numbers, small=small, large=large, before=before, after=after)
    return finding("epsilon-growth", "calm", numbers, last=epsilons[-1], left=accuracies[-1])


@check("still-falling")
def check_still_falling(probe: Probe) -> Finding:
    """APGD on the margin, with growing numbers of steps and then of starts."""
    if not probe.has_gradients:
        return finding("still-falling", "none")
    fooled = {steps: probe.auto_descent(MARGIN, steps=steps) for steps in STEPS}
    by_steps = [share(~fooled[steps]) for steps in STEPS]
    robust = ~fooled[RESTART_STEPS]
    by_restarts = [share(robust)]
    for before, after in pairwise(RESTARTS):
        for start in range(before, after):
            robust = robust & ~probe.auto_descent(MARGIN, steps=RESTART_STEPS, start=start, among=robust)
        by_restarts.append(share(robust))
    numbers = {
        "steps": list(STEPS),
        "accuracy_by_steps": by_steps,
        "restarts": list(RESTARTS),
        "accuracy_by_restarts": by_restarts,
    }
    falls = {"steps": by_steps[-2] - by_steps[-1], "restarts": by_restarts[-2] - by_restarts[-1]}
    adds = tuple(name for name, fall in falls.items() if probe.is_many(fall, FLAG_FALL))
    return finding("still-falling", "falls" if adds else "calm", numbers, adds, more=" and more ".join(adds))


def _epsilons(probe: Probe) -> list[float]:
    """Zero, two balls inside the evaluation's own, that one, its double and the geometric mean on the way to grey."""
    low, high = probe.threat.bounds
    half = (high - low) / 2  # how far any pixel is from the middle at most
    grey = half if isinstance(probe.threat, Linf) else half * math.sqrt(probe.images[0].numel())
    own = probe.threat.radius
    larger = [radius for radius in (2 * own, math.sqrt(2 * own * grey)) if 2 * own < grey]
    return sorted({0.0, own / 4, own / 2, own, *larger, max(own, grey)})


def _accuracy(probe: Probe, epsilon: float) -> float:
    own = probe.threat  # itself, and not an equal one, so that its attacks are shared
    threat = own if epsilon == own.radius else type(own)(epsilon, own.bounds)
    if not probe.has_gradients:
        return share(~probe.random_squares(queries=EPSILON_QUERIES, threat=threat))
    fooled = probe.auto_descent(MARGIN, steps=EPSILON_STEPS, threat=threat)
    return share(~(fooled | probe.auto_descent(CROSS_ENTROPY, steps=EPSILON_STEPS, threat=threat, among=~fooled)))


# Cheap ones first; a new check is a function, its texts in checks.toml and a line here.
CHECKS = {
    each.name: each
    for each in (
        check_randomness,
        check_zero_gradients,
        check_gradient_direction,
        check_objective_gap,
        check_binarization,
        check_black_box,
        check_epsilon_growth,
        check_still_falling,
    )
}
