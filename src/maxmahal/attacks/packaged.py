"""A model as pyautoattack asks it, and the package's attacks set up with our budgets."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from maxmahal.attacks.checks import check_count, check_images, check_logits, check_model, check_seed
from maxmahal.attacks.checks import check_threat as warn_about_threat
from maxmahal.attacks.first_look import told_apart
from maxmahal.attacks.objectives import margin
from maxmahal.attacks.oracle import Look, make_oracle
from maxmahal.attacks.prepare import Prepared
from maxmahal.attacks.rounding import full_float32, quick_float32
from maxmahal.attacks.samples import FOOLED, Samples
from maxmahal.attacks.spent import Passes
from maxmahal.attacks.threats import L2, UNIT, Linf
from maxmahal.errors import ArgumentError

FEWEST_CLASSES = {"apgd-ce": 2, "apgd-dlr": 3, "apgd-t": 4, "fab": 2, "fab-t": 2, "square": 2}
_MOST_TARGETS = 9


class Wrapped:
    """A model for pyautoattack to ask, and the nearest image for each sample that the model itself has confirmed."""

    def __init__(
        self,
        model: nn.Module,
        images: Tensor,
        labels: Tensor,
        threat: Linf | L2,
        seed: int,
        steps: int,
        batch_size: int,
    ) -> None:
        self.model = model.original if isinstance(model, Prepared) else model
        # The package decides by what it is told, so a prepared model does not search in bfloat16.
        self._search = model.precise() if isinstance(model, Prepared) else None
        self.keeps_graphs = False
        """Whether an attack goes through a graph several times, which a compiled model does not allow."""
        self.wants_gradients = True
        _check(self.model, images, labels, threat, seed, steps, batch_size)
        _load_package()  # missing? Say so before any work
        self.threat, self.seed = threat, seed
        self.clean, self.labels = images.detach(), labels
        self._oracle = make_oracle(self.model, margin(), batch_size, eot_samples=1)
        self.passes: Passes = self._oracle.passes
        with told_apart(self.model, self.clean):
            look = self._verdict(self.clean, labels)
        check_logits(look.logits, labels)
        self.classes = look.logits.shape[1]
        self.images, self.predictions = self.clean.clone(), look.predictions
        self.distances = torch.where(self.right, torch.inf, 0.0).to(images.dtype)

    @property
    def right(self) -> Bool[Tensor, " n"]:
        """Who is still classified correctly."""
        return self.predictions == self.labels

    @property
    def _is_coarse(self) -> bool:
        """Whether a prepared copy of the model is searched, not the model itself."""
        return self._search is not None and not self.keeps_graphs

    def check_classes(self, attack: str) -> None:
        """Refuse an attack whose loss compares more classes than there are."""
        if self.classes < FEWEST_CLASSES[attack]:
            raise ArgumentError(
                f"{attack} compares {FEWEST_CLASSES[attack]} logits, and the model has only {self.classes} classes; "
                f"leave it out: attacks=('apgd-ce', 'fab-t', 'square')."
            )

    def predict(self, images: Tensor) -> Tensor:
        """Logits, counted; a copy, because Square writes into them."""
        self.passes.forward += len(images)
        self.passes.queries += len(images)

        def count(gradient: Tensor) -> None:
            self.passes.backward += len(gradient)

        if torch.is_grad_enabled() and images.requires_grad:
            images = images.view_as(images)
            images.register_hook(count)  # type: ignore[no-untyped-call]
        if self._search is None or self.keeps_graphs:  # as _is_coarse says, in words that a type checker follows
            logits: Tensor = self.model(images)
            return logits.clone()
        ask = self._search.search if self.wants_gradients else self._search.query
        return ask(images).logits.clone()

    def calls_wrong(self, images: Float[Tensor, "m c h w"], labels: Int[Tensor, " m"]) -> Bool[Tensor, " m"]:
        """Whom a coarse search takes for wrong from the beginning, so that an attack passes over them."""
        if not self._is_coarse:
            return torch.zeros_like(labels, dtype=torch.bool)
        with torch.no_grad():
            return self.predict(images).argmax(dim=1) != labels

    def offer(
        self, rows: Int[Tensor, " m"], found: Float[Tensor, "m c h w"], claimed: Bool[Tensor, " m"]
    ) -> Int[Tensor, " k"]:
        """Take over what the model confirms, inside the threat and nearer than what is known.

        What comes back are the rows that a coarse search claims to have fooled and the model does not.
        """
        clean, labels = self.clean[rows], self.labels[rows]
        # A little slack: what an attack has clamped to the ball may lie outside it by a rounding.
        near = self.threat.distances(clean, found) <= self.threat.radius * (1 + 1e-4)
        moved = self.threat.project(clean, found.detach())
        predictions = self._verdict(moved, labels).predictions
        distances = self.threat.distances(clean, moved)
        better = near & (predictions != labels) & (distances < self.distances[rows])
        taken = rows[better]
        self.images[taken], self.predictions[taken] = moved[better], predictions[better]
        self.distances[taken] = distances[better]
        return rows[claimed & (predictions == labels)] if self._is_coarse else rows[:0]

    @contextmanager
    def exactly(self) -> Iterator[None]:
        """The model itself is searched, as it judges."""
        search, self._search = self._search, None
        try:
            yield
        finally:
            self._search = search

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """The caller's random state, gradients and trace function come back as they were."""
        parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        trace = sys.gettrace()
        rounding = quick_float32 if self._is_coarse else full_float32
        with torch.random.fork_rng(range(torch.cuda.device_count())), rounding(self.clean.device):
            try:
                for parameter in parameters:
                    parameter.requires_grad_(False)  # FAB would leave gradients in them
                yield
            finally:
                for parameter in parameters:
                    parameter.requires_grad_()
                sys.settrace(trace)

    def _verdict(self, moved: Tensor, labels: Tensor) -> Look:
        return self._oracle.verdict(moved, Samples(moved, labels, labels, None, labels, FOOLED))


def build_suite(wrapped: Wrapped, attack: str, steps: int, queries: int) -> Any:
    """pyautoattack's own set of attacks with our budget."""
    suite = _load_package().AutoAttack(
        wrapped.predict,
        attacks=[attack],
        version="custom",
        norm="Linf" if isinstance(wrapped.threat, Linf) else "L2",
        eps=wrapped.threat.radius,
        seed=wrapped.seed,
        device=wrapped.images.device,
    )
    for part in (suite.apgd, suite.apgd_targeted):
        part.n_restarts, part.n_iter = 1, steps
        # Its checkpoints were set for 100 steps when it was built.
        part.n_iter_2, part.n_iter_min, part.size_decr = (max(share * steps // 100, 1) for share in (22, 6, 3))
    suite.fab.n_restarts, suite.fab.n_iter, suite.square.n_queries = 1, steps, queries
    suite.apgd_targeted.n_target_classes = suite.fab.n_target_classes = min(_MOST_TARGETS, wrapped.classes - 1)
    return suite


def _check(
    model: nn.Module, images: Tensor, labels: Tensor, threat: Linf | L2, seed: int, steps: int, batch_size: int
) -> None:
    if not isinstance(model, nn.Module):
        raise ArgumentError(f"model must be an nn.Module, because AutoAttack needs its gradients; got {model!r}.")
    if not isinstance(threat, (Linf, L2)):
        raise ArgumentError(f"pyautoattack knows the threats Linf and L2; got {threat!r}.")
    if threat.bounds != UNIT:
        raise ArgumentError(f"pyautoattack keeps pixels in [0, 1]; the threat's bounds are {threat.bounds}.")
    check_count("steps", steps)
    check_count("batch_size", batch_size)
    check_seed(seed)
    check_images(images, labels, None, UNIT)
    if images.dtype != torch.float32:
        raise ArgumentError(f"pyautoattack works in float32; got {images.dtype} images. Convert them with .float().")
    warn_about_threat(threat, images)
    check_model(model, images)


def _load_package() -> Any:
    try:
        return importlib.import_module("pyautoattack")
    except ModuleNotFoundError as error:
        raise ArgumentError(
            "This attack needs the package pyautoattack; install it with: pip install 'maxmahal[autoattack]'."
        ) from error
