"""AutoAttack and FAB (Croce and Hein) as the package pyautoattack runs them, judged as every other attack here is.

What the package proposes is projected into the threat and shown to the model once more, in float32: its own verdicts
do not count. A prepared model is searched in TF32 on a GPU. The package's random numbers belong to the batch, not to
the sample: another ``batch_size`` may change a result.
"""

import importlib
import importlib.metadata
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from maxmahal.attacks.answers import is_out_of_memory
from maxmahal.attacks.checks import check_choice, check_count, check_images, check_logits, check_model, check_seed
from maxmahal.attacks.checks import check_threat as warn_about_threat
from maxmahal.attacks.first_look import told_apart
from maxmahal.attacks.objectives import margin
from maxmahal.attacks.oracle import Look, make_oracle
from maxmahal.attacks.prepare import Prepared
from maxmahal.attacks.result import Attacked, Nearest
from maxmahal.attacks.rounding import full_float32, quick_float32
from maxmahal.attacks.samples import FOOLED, Samples
from maxmahal.attacks.spent import Passes
from maxmahal.attacks.threats import L2, UNIT, Linf
from maxmahal.errors import ArgumentError

STANDARD = ("apgd-ce", "apgd-t", "fab-t", "square")
FEWEST_CLASSES = {"apgd-ce": 2, "apgd-dlr": 3, "apgd-t": 4, "fab": 2, "fab-t": 2, "square": 2}
_MOST_TARGETS = 9


@dataclass(frozen=True)
class AutoAttackResult(Attacked):
    """One image a sample: the one that fools the model, or the clean image."""

    survivors: dict[str, Bool[Tensor, " n"]]
    """Who is still classified correctly: ``"clean"``, then after each attack, in the order in which they ran."""
    version: str
    """Of pyautoattack."""


def autoattack(
    model: nn.Module,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    *,
    threat: Linf | L2,
    seed: int,
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
        check_choice("attacks", name, tuple(FEWEST_CLASSES))
    check_count("queries", queries)
    wrapped = _Wrapped(model, images, labels, threat, seed, steps, batch_size)
    for name in attacks:
        wrapped.check_classes(name)
    survivors = {"clean": wrapped.right}
    for name in attacks:
        rows = wrapped.right.nonzero().squeeze(1)
        if len(rows):
            wrapped.offer(rows, _run_part(wrapped, name, rows, steps, queries, batch_size))
        survivors[name] = wrapped.right
    found = (wrapped.images, wrapped.predictions, ~wrapped.right, None, wrapped.passes)
    return AutoAttackResult(*found, survivors, importlib.metadata.version("pyautoattack"))


def _run_part(
    wrapped: "_Wrapped", name: str, rows: Int[Tensor, " m"], steps: int, queries: int, batch_size: int
) -> Float[Tensor, "m c h w"]:
    """What one attack makes of these rows; where memory runs out, of fewer at a time."""
    images, labels = wrapped.clean[rows], wrapped.labels[rows]
    wrapped.keeps_graphs, wrapped.wants_gradients = name == "fab", name != "square"
    while True:
        suite = _suite(wrapped, name, steps, queries)
        try:
            with wrapped.undisturbed():
                found: Tensor = suite.run_standard_evaluation(images, labels, batch_size=batch_size)[0]
            return found
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error) or batch_size == 1:
                raise
        batch_size = -(-min(batch_size, len(rows)) // 2)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def fab(
    model: nn.Module,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    *,
    threat: Linf | L2,
    seed: int,
    steps: int = 100,
    restarts: int = 1,
    targeted: bool = True,
    batch_size: int = 250,
) -> Nearest:
    """The nearest image that FAB finds over all restarts; what lies outside the threat does not count.

    ``targeted`` tries up to 9 target classes in turn, one gradient a step; otherwise each step takes one for every
    class. The first restart starts at the image, the others up to half of epsilon away.
    """
    check_count("restarts", restarts)
    wrapped = _Wrapped(model, images, labels, threat, seed, steps, batch_size)
    wrapped.keeps_graphs = not targeted
    part = _suite(wrapped, "fab", steps, queries=1).fab
    kinds = range(2, part.n_target_classes + 2) if targeted else range(2, 3)  # 2: the most likely wrong class
    open_rows = wrapped.right.nonzero().squeeze(1)
    for start in range(0, len(open_rows), batch_size):
        rows = open_rows[start : start + batch_size]
        with wrapped.undisturbed():
            torch.manual_seed(seed)
            for restart in range(restarts):
                for target in kinds:
                    part.target_class = target
                    options = {"use_rand_start": restart > 0, "is_targeted": targeted}
                    wrapped.offer(rows, part.attack_single_run(wrapped.clean[rows], labels[rows], **options))
    return Nearest(wrapped.images, wrapped.predictions, ~wrapped.right, None, wrapped.passes, wrapped.distances)


class _Wrapped:
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
        _package()  # missing? Say so before any work
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
        if self._search is None or self.keeps_graphs:
            logits: Tensor = self.model(images)
            return logits.clone()
        ask = self._search.search if self.wants_gradients else self._search.query
        return ask(images).logits.clone()

    def offer(self, rows: Int[Tensor, " m"], found: Float[Tensor, "m c h w"]) -> None:
        """Take over what the model confirms, inside the threat and nearer than what is known."""
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

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """The caller's random state, gradients and trace function come back as they were."""
        parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        trace = sys.gettrace()
        rounding = full_float32 if self._search is None or self.keeps_graphs else quick_float32
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


def _suite(wrapped: _Wrapped, attack: str, steps: int, queries: int) -> Any:
    """pyautoattack's own set of attacks with our budget."""
    suite = _package().AutoAttack(
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


def _package() -> Any:
    try:
        return importlib.import_module("pyautoattack")
    except ModuleNotFoundError as error:
        raise ArgumentError(
            "This attack needs the package pyautoattack; install it with: pip install 'maxmahal[autoattack]'."
        ) from error
