"""What a diagnostic check gets: a model, some of the evaluation's samples, the threat, and short attacks to compare."""

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from maxmahal.attacks import L2, Engine, Linf, Model, Objective, Passes, Progress, prepare
from maxmahal.attacks.apgd import AutoDescent
from maxmahal.attacks.engine import Case, run
from maxmahal.attacks.method import Method
from maxmahal.attacks.model_outputs import model_errors
from maxmahal.attacks.objectives import MARGIN, zero_is_success
from maxmahal.attacks.oracle import in_batches
from maxmahal.attacks.pgd import ProjectedDescent
from maxmahal.attacks.square import RandomSquares
from maxmahal.random import generator, own_stream, stream_key
from maxmahal.records import Finding
from maxmahal.settings import Table, read_toml

TEXTS: Table = read_toml(Path(__file__).with_name("checks.toml"))
PROBE_SIZE = 200  # a share of 5 % is ten samples, and all checks together cost a fraction of a suite
_DRAWS = 4  # per pass of a stochastic model: enough for a comparison
_FEWEST = 3  # samples: one or two are chance, whatever share of a small probe they are
_PATIENCE = 10  # steps between the checks of APGD, as in strict
_SQUARE_START = 0.8  # the share of the pixels in the first windows, as in the paper


@dataclass(frozen=True)
class Probe:
    """A model and what every check is told about its evaluation."""

    model: Model  # a module in eval mode, or a function from images to logits
    images: Float[Tensor, "n c h w"]
    labels: Int[Tensor, " n"]
    sample_ids: Int[Tensor, " n"]
    threat: Linf | L2
    seed: int
    stochastic: bool = False
    others: Mapping[str, Model] = field(default_factory=dict)
    """The other models of the evaluation, as sources of transfer attacks."""
    progress: Callable[[Progress], None] | None = None  # called during attacks
    tried: dict[tuple[Method, Objective], tuple[Tensor, Tensor]] = field(default_factory=dict, init=False, repr=False)
    """By attack and objective, which samples it was tried on and which of them it broke: checks share attacks."""

    @cached_property
    def fast(self) -> Model:
        """What attacks search on: the prepared module, or the function itself."""
        return prepare(self.model) if isinstance(self.model, nn.Module) else self.model

    @cached_property
    def has_gradients(self) -> bool:
        """Whether any gradient reaches the images, even if it is zero."""
        return gives_gradients(self.model, self.images)

    @cached_property
    def is_right(self) -> Bool[Tensor, " n"]:
        """Which clean images are classified correctly; the others say nothing about robustness."""
        return in_batches(self.model, self.images).argmax(dim=1) == self.labels

    def tick(self) -> None:
        """Report outside of attacks, before a pass of the model: the evaluation stops there if its time is up."""
        if self.progress is not None:
            self.progress(Progress(0, len(self.images), 0, 0.0, Passes()))

    def keyed(self, *key: int | str) -> int:
        """A seed of its own for every use."""
        return stream_key(self.seed, "diagnose", *key) % 2**63

    def auto_descent(
        self,
        objective: Objective,
        *,
        steps: int,
        start: int = 0,
        threat: Linf | L2 | None = None,
        among: Bool[Tensor, " n"] | None = None,
    ) -> Bool[Tensor, " n"]:
        """Which samples APGD breaks from the start of that number; with ``among``, only those are attacked."""
        patience = _PATIENCE if zero_is_success(objective) else None
        method = AutoDescent(threat or self.threat, steps, self.keyed("apgd", start), patience=patience)
        return self._fooled(method, objective, among)

    def plain_descent(
        self, objective: Objective, *, steps: int, among: Bool[Tensor, " n"] | None = None
    ) -> Bool[Tensor, " n"]:
        """Which samples PGD breaks, with steps that add up to 2.5 times epsilon; ``among`` as for APGD."""
        method = ProjectedDescent(self.threat, steps, 2.5 * self.threat.radius / steps, self.keyed("pgd"))
        return self._fooled(method, objective, among)

    def random_squares(
        self, *, queries: int, threat: Linf | L2 | None = None, among: Bool[Tensor, " n"] | None = None
    ) -> Bool[Tensor, " n"]:
        """Which samples Square breaks; with ``among``, only those are attacked."""
        method = RandomSquares(threat or self.threat, queries, _SQUARE_START, self.keyed("square"))
        return self._fooled(method, MARGIN, among)

    def _fooled(self, method: Method, objective: Objective, among: Bool[Tensor, " n"] | None) -> Bool[Tensor, " n"]:
        asked = torch.ones_like(self.labels, dtype=torch.bool) if among is None else among
        tried, fooled = self.tried.get((method, objective), (torch.zeros_like(asked), torch.zeros_like(asked)))
        rows = (asked & ~tried).nonzero().squeeze(1)
        if len(rows):
            # Not by the public functions, which warn of balls in which no model can be robust: one check needs those.
            case = Case(self.images[rows], self.labels[rows], self.seed, self.sample_ids[rows])
            engine = Engine(eot_samples=_DRAWS if self.stochastic else 1, progress=self.progress)
            found = run(method, self.fast, case, objective=objective, engine=engine, bounds=self.threat.bounds)
            fooled = fooled.index_put((rows,), found.fooled)
        if not self.stochastic:  # whose results also depend on the other samples of the batch
            self.tried[method, objective] = tried | asked, fooled
        return fooled & asked

    def is_many(self, part: float, most: float) -> bool:
        """Whether a share of the samples is above ``most``, and more than one or two samples of a small probe."""
        return part > most and round(part * len(self.images)) >= _FEWEST


@dataclass(frozen=True)
class Check:
    """One sign of false robustness to look for."""

    name: str
    title: str
    function: Callable[[Probe], Finding]

    def __call__(self, probe: Probe) -> Finding:
        """Run it with its own stream of torch's random numbers; the caller's stream is restored."""
        with own_stream(probe.images.device, probe.keyed(self.name)):
            return self.function(probe)


def check(name: str) -> Callable[[Callable[[Probe], Finding]], Check]:
    """Make a check of a function that returns a ``finding``."""
    return lambda function: Check(name, TEXTS[name]["title"], function)


class _Texts(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        return percent(value) if format_spec == "%" else str(super().format_field(value, format_spec))


def finding(
    check: str, case: str, numbers: dict[str, Any] | None = None, adds: Sequence[str] | None = None, **words: object
) -> Finding:
    """What ``checks.toml`` says in a case, a warning if that has a remedy; ``adds`` are remedies to add instead."""
    text, values = TEXTS[check][case], {**(numbers or {}), **words}
    sentence, remedy = (_Texts().format(text.get(key, ""), **values) for key in ("sentence", "remedy"))
    title, wanted = text.get("title", TEXTS[check]["title"]), text.get("adds", ()) if adds is None else adds
    return Finding(check, title, bool(remedy), sentence, remedy, tuple(wanted), numbers or {})


def choose_probe(count: int, seed: int) -> Int[Tensor, " n"]:
    """Which of ``count`` samples to use: a random set that depends only on the two numbers."""
    order = torch.randperm(count, generator=generator("probe", seed))
    return order[:PROBE_SIZE].sort().values


def gives_gradients(model: Model, images: Float[Tensor, "n c h w"]) -> bool:
    """Whether gradients reach the images from a model's logits; never for a function."""
    return isinstance(model, nn.Module) and pull_back(model, images[:1]) is not None


def pull_back(function: Callable[[Tensor], Tensor], inputs: Tensor, along: Tensor | None = None) -> Tensor | None:
    """The gradient of the sum of all outputs, or of their product with ``along``; None if there is no gradient."""
    moved = inputs.detach().clone().requires_grad_()
    with model_errors(function, inputs):
        try:
            with torch.enable_grad():
                outputs = function(moved)
                if not outputs.requires_grad:
                    return None
                weights = torch.ones_like(outputs) if along is None else along.expand_as(outputs)
                gradient: Tensor | None = torch.autograd.grad(outputs, moved, weights, allow_unused=True)[0]
        except RuntimeError as error:
            # A step without a derivative in torch, or one that converts to numpy and meets a tensor with a gradient.
            if any(words in str(error) for words in ("is not implemented", "that requires grad")):
                return None
            raise
    return gradient


def share(which: Bool[Tensor, " n"]) -> float:
    """The share of samples for which it is true."""
    return float(which.double().mean())


def percent(part: float) -> str:
    """A share in percent."""
    return f"{100 * part:.1f} %"
