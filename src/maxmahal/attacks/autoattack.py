"""AutoAttack and FAB (Croce and Hein) as the package pyautoattack runs them, judged as every other attack here is.

The model itself, in float32, confirms what the package finds; where it does not agree with a coarser search, that is
repeated in float32. The package's random numbers belong to the batch: another ``batch_size`` may change a result.
"""

import importlib.metadata
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from maxmahal.attacks.checks import check_images, check_logits, check_model, check_seed, check_threat
from maxmahal.attacks.model_outputs import check_unchanged, is_out_of_memory, model_errors
from maxmahal.attacks.objectives import margin
from maxmahal.attacks.oracle import FOOLED, Look, Samples, check_gradients_allowed, full_float32, make_oracle
from maxmahal.attacks.prepare import Prepared
from maxmahal.attacks.result import Nearest, Passes, Result
from maxmahal.attacks.threats import L2, UNIT, Images, Linf, as_ball
from maxmahal.errors import ArgumentError, check_choice, check_count
from maxmahal.imports import optional

FEWEST_CLASSES = {"apgd-ce": 2, "apgd-dlr": 3, "apgd-t": 4, "fab": 2, "fab-t": 2, "square": 2}
_MOST_TARGETS = 9
_LEAST_HEIGHT = 5  # Square divides the rows by five
_PACKAGE = ("pyautoattack", "pip install 'maxmahal[autoattack]'")


class Wrapped:
    """A model as pyautoattack calls it, and the nearest image for each sample that the model itself has confirmed."""

    def __init__(
        self,
        model: nn.Module,
        images: Tensor,
        labels: Tensor,
        threat: Linf | L2 | str | float,
        seed: int,
        steps: int,
        batch_size: int,
    ) -> None:
        self.model = model.original if isinstance(model, Prepared) else model
        # The package decides by the outputs it sees, so a prepared model does not search in bfloat16.
        self._search = model.precise() if isinstance(model, Prepared) else None
        self.keeps_graphs = False
        """Whether an attack goes through a graph several times, which a compiled model does not allow."""
        self.wants_gradients = True
        self.threat, self.seed = as_ball(threat, "pyautoattack"), seed
        check_count("steps", steps)
        check_count("batch_size", batch_size)
        check_seed(seed)
        if not isinstance(self.model, nn.Module):
            raise ArgumentError(
                f"model must be an nn.Module, because AutoAttack needs its gradients; got {self.model!r}."
            )
        if self.threat.bounds != UNIT:
            raise ArgumentError(f"pyautoattack keeps pixels in [0, 1]; the threat's bounds are {self.threat.bounds}.")
        check_images(images, labels, None, UNIT)
        if images.dtype != torch.float32:
            raise ArgumentError(
                f"pyautoattack works in float32; got {images.dtype} images. Convert them with .float()."
            )
        check_threat(self.threat, images)
        check_model(self.model, images)
        optional(*_PACKAGE)  # missing? Say so before any work
        self.clean, self.labels = images.detach(), labels
        self._oracle = make_oracle(self.model, margin(), batch_size, eot_samples=1)
        self.passes: Passes = self._oracle.passes
        shown = self.clean.clone()
        look = self._verdict(shown, labels)
        check_unchanged(shown, self.clean)
        check_logits(look.logits, labels)
        self.classes = look.logits.shape[1]
        self.images, self.predictions = self.clean.clone(), look.predictions
        self.distances = torch.where(self.right, torch.inf, 0.0).to(images.dtype)

    @property
    def right(self) -> Bool[Tensor, " n"]:
        """Which samples are still classified correctly."""
        return self.predictions == self.labels

    @property
    def coarse(self) -> Prepared | None:
        """The prepared copy of the model if that is searched, not the model itself."""
        return None if self.keeps_graphs else self._search

    def predict(self, images: Tensor) -> Tensor:
        """Logits, counted; a copy, because Square writes into them, and never in less than float32."""
        self.passes.forward += len(images)
        self.passes.queries += len(images)

        def count(gradient: Tensor) -> None:
            self.passes.backward += len(gradient)

        if torch.is_grad_enabled() and images.requires_grad:
            images = images.view_as(images)
            images.register_hook(count)  # type: ignore[no-untyped-call]
        with model_errors(self.model, images):
            if (coarse := self.coarse) is None:
                logits: Tensor = self.model(images)
            else:
                logits = (coarse.search if self.wants_gradients else coarse.query)(images).logits
        return logits.to(torch.promote_types(logits.dtype, torch.float32), copy=True)

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
        return rows[:0] if self.coarse is None else rows[claimed & (predictions == labels)]

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
        if self.wants_gradients:
            check_gradients_allowed()
        parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        trace = sys.gettrace()
        rounding = "ieee" if self.coarse is None else "tf32"
        with torch.random.fork_rng(range(torch.cuda.device_count())), full_float32(self.clean.device, rounding):
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
    suite = optional(*_PACKAGE).AutoAttack(
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


STANDARD = ("apgd-ce", "apgd-t", "fab-t", "square")


@dataclass(frozen=True, repr=False)
class AutoAttackResult(Result):
    """One image per sample: the one that fools the model, or the clean image."""

    survivors: dict[str, Bool[Tensor, " n"]]
    """Samples that are still correct: ``"clean"``, then after each attack, in the order in which they ran."""
    version: str
    """Of pyautoattack."""


def autoattack(
    model: nn.Module,
    images: Images,
    labels: Int[Tensor, " n"],
    threat: Linf | L2 | str | float,
    *,
    seed: int = 0,
    attacks: tuple[str, ...] = STANDARD,
    steps: int = 100,
    queries: int = 5000,
    batch_size: int = 250,
) -> AutoAttackResult:
    """The attacks in turn, each on the samples that the ones before it left; by default the standard evaluation.

    ``attacks`` may name apgd-ce, apgd-dlr, apgd-t, fab, fab-t and square; ``steps`` are those of APGD and FAB, for each
    of up to 9 target classes, and ``queries`` Square's. It needs the package: pip install 'maxmahal[autoattack]'.
    """
    if not attacks:
        raise ArgumentError(f"attacks must name at least one of {', '.join(FEWEST_CLASSES)}; got none.")
    for name in attacks:
        check_choice("attacks", name, FEWEST_CLASSES)
    check_count("queries", queries)
    wrapped = Wrapped(model, images, labels, threat, seed, steps, batch_size)
    for name in attacks:
        if wrapped.classes < FEWEST_CLASSES[name]:
            raise ArgumentError(
                f"{name} compares {FEWEST_CLASSES[name]} logits, and the model has only {wrapped.classes} classes; "
                f"leave it out: attacks=('apgd-ce', 'fab-t', 'square')."
            )
        if name == "square" and isinstance(wrapped.threat, L2) and images.shape[2] < _LEAST_HEIGHT:
            raise ArgumentError(
                f"pyautoattack's Square in L2 needs images of at least {_LEAST_HEIGHT} rows; got {images.shape[2]}. "
                "Leave it out: attacks=('apgd-ce', 'apgd-t', 'fab-t')."
            )
    survivors = {"clean": wrapped.right}
    for name in attacks:
        rows = wrapped.right.nonzero().squeeze(1)
        if len(rows):
            disputed = _run_part(wrapped, name, rows, steps, queries, batch_size)
            if len(disputed):
                with wrapped.exactly():
                    _run_part(wrapped, name, disputed, steps, queries, batch_size)
        survivors[name] = wrapped.right
    found = (wrapped.images, wrapped.predictions, ~wrapped.right, None, wrapped.passes)
    version = importlib.metadata.version("pyautoattack")
    return AutoAttackResult(*found, survivors, version, threat=wrapped.threat)


def autoattack_part(
    model: nn.Module,
    images: Images,
    labels: Int[Tensor, " n"],
    *,
    threat: Linf | L2,
    seed: int,
    part: Literal["apgd-ce", "apgd-dlr", "apgd-t", "fab", "fab-t", "square"] = "apgd-ce",
    steps: int = 100,
    queries: int = 5000,
) -> AutoAttackResult:
    """One attack of AutoAttack on all samples in one batch."""
    options = {"attacks": (part,), "steps": steps, "queries": queries, "batch_size": max(len(images), 1)}
    # It seeds numpy, whose seeds are 32 bits wide.
    return autoattack(model, images, labels, threat=threat, seed=seed % 2**31, **options)  # type: ignore[arg-type]


def _run_part(
    wrapped: Wrapped, name: str, rows: Int[Tensor, " m"], steps: int, queries: int, batch_size: int
) -> Int[Tensor, " k"]:
    """One attack on these rows, fewer at a time where memory runs out; those that only a coarse search calls fooled."""
    images, labels = wrapped.clean[rows], wrapped.labels[rows]
    wrapped.keeps_graphs, wrapped.wants_gradients = name == "fab", name != "square"
    while True:
        suite = build_suite(wrapped, name, steps, queries)
        try:
            with wrapped.undisturbed():
                found, answers = suite.run_standard_evaluation(images, labels, batch_size=batch_size)
            return wrapped.offer(rows, found, claimed=answers != labels)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error) or batch_size == 1:
                raise
        batch_size = -(-min(batch_size, len(rows)) // 2)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def fab(
    model: nn.Module,
    images: Images,
    labels: Int[Tensor, " n"],
    threat: Linf | L2 | str | float,
    *,
    seed: int = 0,
    steps: int = 100,
    restarts: int = 1,
    targeted: bool = True,
    batch_size: int = 250,
) -> Nearest:
    """The nearest image that FAB finds over all restarts; what lies outside the threat does not count.

    ``targeted`` tries up to 9 target classes in turn, one gradient per step; otherwise each step takes one for every
    class. The first restart starts at the image, the others up to half of epsilon away.
    """
    check_count("restarts", restarts)
    wrapped = Wrapped(model, images, labels, threat, seed, steps, batch_size)
    wrapped.keeps_graphs = not targeted
    part = build_suite(wrapped, "fab", steps, queries=1).fab
    kinds = range(2, part.n_target_classes + 2) if targeted else range(2, 3)  # 2: the most likely wrong class
    open_rows = wrapped.right.nonzero().squeeze(1)
    for start in range(0, len(open_rows), batch_size):
        disputed = _run_fab(wrapped, part, open_rows[start : start + batch_size], kinds, restarts, targeted)
        if len(disputed):
            with wrapped.exactly():
                _run_fab(wrapped, part, disputed, kinds, restarts, targeted)
    return Nearest(wrapped.images, wrapped.predictions, ~wrapped.right, None, wrapped.passes, wrapped.distances)


def _run_fab(
    wrapped: Wrapped, part: Any, rows: Int[Tensor, " m"], kinds: range, restarts: int, targeted: bool
) -> Int[Tensor, " k"]:
    """FAB on these rows; those that only a coarse search calls fooled."""
    clean, labels = wrapped.clean[rows], wrapped.labels[rows]
    disputed = torch.zeros_like(labels, dtype=torch.bool)
    with wrapped.undisturbed():
        torch.manual_seed(wrapped.seed)
        is_wrong = torch.zeros_like(disputed)
        if wrapped.coarse is not None:  # which may misclassify samples from the start, so that FAB skips them
            with torch.no_grad():
                is_wrong = wrapped.predict(clean).argmax(dim=1) != labels
        for restart in range(restarts):
            for target in kinds:
                part.target_class = target
                options = {"use_rand_start": restart > 0, "is_targeted": targeted}
                found = part.attack_single_run(clean, labels, **options)
                claimed = is_wrong | (found != clean).flatten(1).any(dim=1)
                disputed |= torch.isin(rows, wrapped.offer(rows, found, claimed))
    return rows[disputed & wrapped.right[rows]]
