"""Which class a targeted attack pulls each sample to: drawn, read off the logits, or given by the caller.

A policy sees the logits of the clean images and returns [n, t] classes, which an attack tries in that order.
"""

import re
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.errors import ArgumentError, check_choice
from maxmahal.random import integers

TargetPolicy = Callable[[Tensor, Tensor, Tensor, int], Tensor]
"""(logits [n, l], labels [n], sample_ids [n], seed) -> targets [n, t]."""
Targets = Tensor | str | TargetPolicy | None
"""Target classes: one per sample, the name of a policy, a policy, or None for an untargeted attack."""


def random_other(logits: Tensor, labels: Tensor, sample_ids: Tensor, seed: int) -> Int[Tensor, "n 1"]:
    """One wrong class, drawn for each sample."""
    classes = logits.shape[1]
    offset = 1 + integers(sample_ids, classes - 1, "target", seed)
    return ((labels + offset) % classes)[:, None]


def random_any(logits: Tensor, _labels: Tensor, sample_ids: Tensor, seed: int) -> Int[Tensor, "n 1"]:
    """One class of all, the label among them, drawn for each sample as the paper's released code does."""
    return integers(sample_ids, logits.shape[1], "target", seed)[:, None]


def all_others(logits: Tensor, labels: Tensor, _ids: Tensor, _seed: int) -> Int[Tensor, "n t"]:
    """Every wrong class, most likely first, so that an attack which stops at its first success stops early."""
    return _sorted_others(logits, labels, descending=True)


def least_likely(logits: Tensor, labels: Tensor, _ids: Tensor, _seed: int) -> Int[Tensor, "n 1"]:
    """The least likely wrong class."""
    return _sorted_others(logits, labels, descending=False)[:, :1]


def top_others(count: int) -> TargetPolicy:
    """The ``count`` most likely wrong classes, or all where there are fewer: most likely first, ties by class index."""
    if count < 1:
        raise ArgumentError(f"count must be at least 1; got {count}.")
    return lambda *given: all_others(*given)[:, :count]


def _sorted_others(
    logits: Float[Tensor, "n l"], labels: Int[Tensor, " n"], *, descending: bool
) -> Int[Tensor, "n others"]:
    """Each sample's wrong classes by their logits, ties by class index."""
    places = torch.arange(logits.shape[1] - 1, device=logits.device)
    others = places + (places >= labels[:, None]).long()  # the label's place is skipped, whatever its logit
    order = logits.gather(1, others).argsort(dim=1, descending=descending, stable=True)
    return others.gather(1, order)


TARGETS: dict[str, TargetPolicy] = {
    "random-other": random_other,
    "random-any": random_any,
    "second-best": top_others(1),
    "least-likely": least_likely,
    "all-others": all_others,
    "top-9": top_others(9),
}
"""Ways to choose target classes, by the name that suites use; "top-9" stands for "top-1", "top-2" and so on."""


def find_targets(name: str) -> TargetPolicy:
    """The way of that name, or an error that names the nearest."""
    if few := re.fullmatch(r"top-([1-9]\d{0,8})", name):
        return top_others(int(few[1]))
    check_choice("targets", name, TARGETS)
    return TARGETS[name]


def resolve_targets(
    targets: Targets, logits: Float[Tensor, "n l"], labels: Int[Tensor, " n"], sample_ids: Int[Tensor, " n"], seed: int
) -> Int[Tensor, "n t"] | None:
    """Targets in any form that a caller may give, checked, as a row of classes for each sample; None if untargeted."""
    if targets is None:
        return None
    if logits.shape[1] < 2:
        raise ArgumentError(f"targets need a model of at least 2 classes; this one has {logits.shape[1]}.")
    if isinstance(targets, str):
        targets = find_targets(targets)
    chosen = targets if isinstance(targets, Tensor) else targets(logits, labels, sample_ids, seed)
    if chosen.is_floating_point() or chosen.is_complex() or chosen.dtype == torch.bool:
        raise ArgumentError(f"targets must be whole numbers, such as torch.int64; got {chosen.dtype}.")
    if chosen.device != logits.device:
        raise ArgumentError(
            f"targets must be on the logits' device, {logits.device}; got {chosen.device}. Move them there first."
        )
    if chosen.dim() not in (1, 2) or len(chosen) != len(logits) or (chosen.dim() == 2 and not chosen.shape[1]):
        raise ArgumentError(
            f"targets must hold one class, or one row of classes, for each of the {len(logits)} samples; "
            f"got the shape {tuple(chosen.shape)}."
        )
    classes = logits.shape[1]
    if bool(((chosen < 0) | (chosen >= classes)).any()):
        raise ArgumentError(
            f"targets must lie in 0..{classes - 1} because the model has {classes} classes; "
            f"got {int(chosen.min())}..{int(chosen.max())}."
        )
    rows = (chosen[:, None] if chosen.dim() == 1 else chosen).to(torch.int64)
    hits = (rows == labels[:, None]).any(dim=1)
    if targets is not random_any and bool(hits.any()):
        first = int(hits.long().argmax())
        raise ArgumentError(
            f"targets must be wrong classes; sample {first} of the batch has its own label, {int(labels[first])}, "
            "as a target. Use 'random-other' for a drawn wrong class."
        )
    return rows
