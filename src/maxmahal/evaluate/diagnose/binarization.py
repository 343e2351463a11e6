"""Does the attack find an adversarial example that is known to exist?

The test of Zimmermann, Brendel, Tramèr and Carlini (2022): the last layer of a model is replaced, sample by sample, by
a linear readout that separates one point at the edge of the ball from many well inside it. An adversarial example
exists by construction, and an attack on a model whose gradients are informative finds it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from maxmahal.attacks import craft, custom
from maxmahal.attacks.objectives import plain_classifier
from maxmahal.attacks.oracle import default_batch_size, in_batches, in_chunks
from maxmahal.evaluate.diagnose.probe import Probe, check, finding, share
from maxmahal.random import derive, signs
from maxmahal.records import Finding

SAMPLES = 50
INNER = 200  # points per sample: several times the features that vary near it
INNER_SHARE = 0.5  # of epsilon: how far inside they lie
EDGE = 8  # points per sample at the edge of the ball; the readout is built for the one that stands out most
STRICTNESS = 0.9  # where the boundary lies between the outermost inner point (0) and the edge point (1)
RIDGE = 1e-2  # of the mean variance of the features: keeps directions in which nothing varies from deciding
STEPS, STARTS = 50, 2
RANDOM_POINTS = 50  # per sample, to estimate how easy the planted examples are by chance
FEWEST = 10  # planted examples; with fewer the rate means nothing
# Of the planted examples: PGD found 92 to 100 % through ordinary models and at most 46 % through masked ones; the
# authors ask for 95 %, which 50 samples and so short an attack cannot distinguish from a little less.
FLAG_FOUND = 0.8
# Of the planted examples: if random points find more, finding them proves nothing.
MOST_BY_CHANCE = 0.3


@dataclass(frozen=True)
class Readouts:
    """One linear readout per sample, in float64; above zero is the planted class."""

    weights: Float[Tensor, "n d"]
    thresholds: Float[Tensor, " n"]
    separates: Bool[Tensor, " n"]  # whether the edge point lies beyond all inner ones, so that an example is planted

    def of(self, rows: Int[Tensor, " m"]) -> "Readouts":
        """Those of some samples."""
        return Readouts(self.weights[rows], self.thresholds[rows], self.separates[rows])

    def __call__(self, features: Float[Tensor, "n ... d"]) -> Float[Tensor, "n ..."]:
        """The readout of each sample's own features, one or several per sample."""
        shape = (len(self.weights),) + (1,) * (features.ndim - 2)
        weights = self.weights.reshape(*shape, -1)
        return (features.double() * weights).sum(dim=-1) - self.thresholds.reshape(shape)


class Features(nn.Module):
    """What the last layer of a model sees: a classifier's features, the input of the last linear layer, or the logits.

    The model is not a submodule, so that nothing done to this module changes it.
    """

    def __init__(self, model: nn.Module, tick: Callable[[], None] = lambda: None) -> None:
        """``tick`` is called before each pass."""
        super().__init__()
        self.eval()
        self._models, self._tick = (model,), tick

    def forward(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """One vector per image."""
        self._tick()
        (model,) = self._models
        if (classifier := plain_classifier(model)) is not None:
            return classifier.features(images)
        seen: list[Tensor] = []  # the input of the linear layer that was used last

        def keep(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:  # noqa: ARG001
            seen[:] = inputs[:1]

        layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
        handles = [layer.register_forward_pre_hook(keep) for layer in layers]
        try:
            logits: Tensor = model(images)
        finally:
            for handle in handles:
                handle.remove()
        fits = bool(seen) and seen[-1].ndim == 2 and len(seen[-1]) == len(images)
        return seen[-1] if fits else logits


@check("binarization")
def check_binarization(probe: Probe) -> Finding:
    """Plant an example per sample, try random points, then attack."""
    if not isinstance(probe.model, nn.Module):
        return finding("binarization", "function")
    if probe.stochastic:
        return finding("binarization", "stochastic")
    model = Features(probe.model, probe.tick)
    images, labels, ids = probe.images[:SAMPLES], probe.labels[:SAMPLES], probe.sample_ids[:SAMPLES]
    probe = replace(probe, images=images, labels=labels, sample_ids=ids)
    inner = _features_around(probe, model, "inner", INNER, INNER_SHARE)
    readouts = plant(inner, _features_around(probe, model, "edge", EDGE, None))
    planted = int(readouts.separates.sum())
    if planted < FEWEST:
        return finding("binarization", "few", {"planted": planted}, images=len(images))
    guesses = readouts(_features_around(probe, model, "guess", RANDOM_POINTS, 1.0)) > 0
    by_chance = float(guesses[readouts.separates].double().mean())
    found = share(_attack(probe, model, readouts)[readouts.separates])
    numbers = {"planted": planted, "found": found, "found_by_chance": by_chance}
    case = "easy" if by_chance > MOST_BY_CHANCE else "calm" if found >= FLAG_FOUND else "missed"
    return finding("binarization", case, numbers)


def plant(inner: Float[Tensor, "n p d"], edge: Float[Tensor, "n e d"]) -> Readouts:
    """Fisher's discriminant of the edge point that stands out most, with the boundary close to that point."""
    inner, edge = inner.double(), edge.double()
    middle = inner.mean(dim=1, keepdim=True)
    around = inner - middle
    spread = around.mT @ around / inner.shape[1]
    mean_variance = spread.diagonal(dim1=1, dim2=2).mean(dim=1)
    floor = (RIDGE * mean_variance).clamp_min(1e-12)
    spread = spread + floor[:, None, None] * torch.eye(inner.shape[2], dtype=spread.dtype, device=spread.device)
    weights = torch.linalg.solve(spread, (edge - middle).mT)  # one column per edge point
    weights = weights / torch.linalg.vector_norm(weights, dim=1, keepdim=True).clamp_min(1e-30)
    outermost = (around @ weights).amax(dim=1)
    reached = ((edge - middle) * weights.mT).sum(dim=2)
    gaps = (reached - outermost) / reached.clamp_min(1e-30)
    best = gaps.argmax(dim=1)
    rows = torch.arange(len(inner), device=inner.device)
    weights, outermost, reached = weights[rows, :, best], outermost[rows, best], reached[rows, best]
    boundary = outermost + STRICTNESS * (reached - outermost)
    separates = (reached > 0) & (gaps[rows, best] > 0)
    return Readouts(weights, boundary + (middle.squeeze(1) * weights).sum(dim=1), separates)


def _features_around(
    probe: Probe, model: Features, key: str, count: int, within: float | None
) -> Float[Tensor, "n p d"]:
    """Features of random points around each image, ``within`` a share of epsilon or, if that is None, at the edge."""
    images, ids = probe.images, probe.sample_ids
    numbers = torch.arange(count, device=ids.device).repeat(len(ids))
    own = derive(ids.repeat_interleave(count), numbers)
    centers = images.repeat_interleave(count, dim=0)
    if within is None:
        # A step of the ball's own size along random signs ends at a corner of Linf and at the surface of L2.
        drawn = signs(own, images.shape[1:], "binarization", key, probe.seed).to(images.dtype)
        points = probe.threat.project(centers, probe.threat.descend(centers, drawn, probe.threat.radius))
    else:
        smaller = type(probe.threat)(within * probe.threat.radius, probe.threat.bounds)
        points = smaller.random_start(centers, own, "binarization", key, probe.seed)
    return in_batches(model, points).reshape(len(ids), count, -1)


def _attack(probe: Probe, model: Features, readouts: Readouts) -> Bool[Tensor, " n"]:
    """Which planted examples PGD finds through the model and the readouts, from any of its starts."""
    found = torch.zeros_like(readouts.separates)
    for start in range(STARTS if probe.has_gradients else 0):
        left = (readouts.separates & ~found).nonzero().squeeze(1)  # the others are found already

        def descend(first: int, stop: int, start: int = start, left: Tensor = left) -> None:
            rows = left[first:stop]
            own = readouts.of(rows)
            planted = custom(lambda outputs, *_: -own(outputs.logits), name="planted")
            case = (model, probe.images[rows], torch.zeros_like(rows), probe.threat)
            seed, ids = probe.keyed("binarization", start), probe.sample_ids[rows]
            size = 2.5 * probe.threat.radius / STEPS
            moved = craft(*case, objective=planted, steps=STEPS, step_size=size, seed=seed, sample_ids=ids)
            found[rows] = own(in_batches(model, moved)) > 0

        in_chunks(len(left), default_batch_size(probe.images), descend)
    return found
