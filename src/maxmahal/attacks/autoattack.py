"""AutoAttack and FAB (Croce and Hein) as the package pyautoattack runs them, judged as every other attack here is.

What the package proposes is projected into the threat and shown to the model once more, in float32: its own verdicts
do not count. A prepared model is searched in TF32 on a GPU; the package leaves a sample alone as soon as it looks
fooled, so where float32 does not agree it searches again in float32. The package's random numbers belong to the batch,
not to the sample: another ``batch_size`` may change a result.
"""

import importlib.metadata
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from maxmahal.attacks.answers import is_out_of_memory
from maxmahal.attacks.checks import check_choice, check_count
from maxmahal.attacks.packaged import FEWEST_CLASSES, Wrapped, build_suite
from maxmahal.attacks.result import Attacked, Nearest
from maxmahal.attacks.threats import L2, Linf
from maxmahal.errors import ArgumentError

STANDARD = ("apgd-ce", "apgd-t", "fab-t", "square")


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
    wrapped = Wrapped(model, images, labels, threat, seed, steps, batch_size)
    for name in attacks:
        wrapped.check_classes(name)
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
    return AutoAttackResult(*found, survivors, importlib.metadata.version("pyautoattack"))


def autoattack_part(
    model: nn.Module,
    images: Float[Tensor, "n c h w"],
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
        is_wrong = wrapped.calls_wrong(clean, labels)
        for restart in range(restarts):
            for target in kinds:
                part.target_class = target
                options = {"use_rand_start": restart > 0, "is_targeted": targeted}
                found = part.attack_single_run(clean, labels, **options)
                claimed = is_wrong | (found != clean).flatten(1).any(dim=1)
                disputed |= torch.isin(rows, wrapped.offer(rows, found, claimed))
    return rows[disputed & wrapped.right[rows]]
