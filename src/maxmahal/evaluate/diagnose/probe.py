"""What a diagnostic check looks at: one model, a few of the evaluation's samples, and the ball it is attacked in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from maxmahal.attacks import L2, Engine, Linf, Model, prepare
from maxmahal.attacks.oracle import default_batch_size
from maxmahal.random import generator, stream_key
from maxmahal.records import Finding

PROBE_SIZE = 200  # a share of 5 % is then ten samples, and all checks together stay a fraction of a suite's cost
_DRAWS = 4  # of a model that draws, at every look: enough to steady a comparison, not an attack meant to win


@dataclass(frozen=True)
class Probe:
    """A model, and what every check is told about the evaluation it stands in."""

    model: Model
    """A module in eval mode, or a function from images to logits."""
    images: Float[Tensor, "n c h w"]
    labels: Int[Tensor, " n"]
    sample_ids: Int[Tensor, " n"]
    threat: Linf | L2
    seed: int
    stochastic: bool = False
    others: Mapping[str, Model] = field(default_factory=dict)
    """Models evaluated alongside, as substitutes to craft on."""

    @cached_property
    def fast(self) -> Model:
        """What attacks search on: the module made fast, or the function itself."""
        return prepare(self.model) if isinstance(self.model, nn.Module) else self.model

    @cached_property
    def has_gradients(self) -> bool:
        """Whether any gradient comes back from the logits to the images, be it zero."""
        return gives_gradients(self.model, self.images)

    @property
    def engine(self) -> Engine:
        """Several draws at every look of a model that draws."""
        return Engine(eot_samples=_DRAWS if self.stochastic else 1)

    @cached_property
    def logits(self) -> Float[Tensor, "n l"]:
        """What the model says about the clean images."""
        return in_batches(self.model, self.images)

    @cached_property
    def is_right(self) -> Bool[Tensor, " n"]:
        """Which clean images the model gets right; the others tell nothing about robustness."""
        return self.logits.argmax(dim=1) == self.labels

    def keyed(self, *key: int | str) -> int:
        """A seed of its own for every use."""
        return stream_key(self.seed, "diagnose", *key) % 2**63


def choose_probe(count: int, seed: int) -> Int[Tensor, " n"]:
    """Which of ``count`` samples to look at: a random set that depends on nothing but the two numbers."""
    order = torch.randperm(count, generator=generator("probe", seed))
    return order[:PROBE_SIZE].sort().values


def gives_gradients(model: Model, images: Float[Tensor, "n c h w"]) -> bool:
    """Whether gradients come back from a model's logits to the images; never from a function's."""
    return isinstance(model, nn.Module) and pull_back(model, images[:1]) is not None


def pull_back(function: Callable[[Tensor], Tensor], inputs: Tensor, along: Tensor | None = None) -> Tensor | None:
    """The gradient of all outputs' sum, or of their product with ``along``; None where none comes back at all."""
    moved = inputs.detach().clone().requires_grad_()
    try:
        with torch.enable_grad():
            outputs = function(moved)
            if not outputs.requires_grad:
                return None
            weights = torch.ones_like(outputs) if along is None else along.expand_as(outputs)
            gradient: Tensor | None = torch.autograd.grad(outputs, moved, weights, allow_unused=True)[0]
    except RuntimeError as error:
        # A step that torch has no derivative of, or one that leaves for numpy and finds a gradient wanted.
        if any(words in str(error) for words in ("is not implemented", "that requires grad")):
            return None
        raise
    return gradient


def in_batches(function: Callable[[Tensor], Tensor], images: Float[Tensor, "n c h w"]) -> Tensor:
    """``function`` of all images without gradients, as many at a time as suit the device."""
    with torch.no_grad():
        return torch.cat([function(part) for part in torch.split(images, default_batch_size(images))])


Check = Callable[[Probe], Finding]


def isolated(name: str) -> Callable[[Check], Check]:
    """Give a check a stream of torch's random numbers of its own, so that a model that draws draws the same each time.

    The caller's stream is put back afterwards.
    """

    def decorate(function: Check) -> Check:
        @wraps(function)
        def look(probe: Probe) -> Finding:
            device = probe.images.device
            with torch.random.fork_rng([device] if device.type == "cuda" else []):
                torch.manual_seed(probe.keyed(name))
                return function(probe)

        return look

    return decorate
