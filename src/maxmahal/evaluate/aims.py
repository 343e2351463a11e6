"""Objectives by the names that suites use, resolved for a model: what adapts to a head falls back to logits alone."""

from collections.abc import Callable

from maxmahal.attacks import (
    OBJECTIVES,
    Objective,
    cross_entropy,
    margin,
    own_loss,
    own_loss_difference,
    paper_objective,
)
from maxmahal.errors import SettingsError, did_you_mean
from maxmahal.evaluate.subject import Subject
from maxmahal.models import Head


def _paper(head: Head | None) -> Objective:
    return cross_entropy() if head is None else paper_objective(head)


def _paper_difference(head: Head | None) -> Objective:
    """The paper's un,2 and tar,2 for its own loss; the margin for all others, as C&W has it."""
    return own_loss_difference(head) if head is not None and head.has_preset_centers else margin(over_all=True)


def _paper_spsa(head: Head | None) -> Objective:
    """The library that the authors used works on the margin unless it is told a loss."""
    return own_loss(head) if head is not None and head.has_preset_centers else margin(over_all=True)


# What the paper's protocol asks of each model: adaptive where the head has centers, the usual objective elsewhere.
PAPER: dict[str, Callable[[Head | None], Objective]] = {
    "paper": _paper,
    "paper-difference": _paper_difference,
    "paper-spsa": _paper_spsa,
}
NEED_HEAD = frozenset({"own", "own-difference"})
NEED_CENTERS = frozenset({"nearest-center"})
NEED_FOUR_CLASSES = frozenset({"dlr"})


def check_objective_name(name: str) -> None:
    """Refuse a name that stands for nothing."""
    names = [*OBJECTIVES, *PAPER]
    if name not in names:
        raise SettingsError(f"objective = '{name}' is unknown; {did_you_mean(name, names)}")


def why_not_objective(name: str, subject: Subject, classes: int) -> str:
    """Why this model cannot be attacked on that objective, as a sentence; empty where it can."""
    if name in NEED_HEAD and subject.head is None:
        return "It follows the loss the model was trained with, and nothing is known of this model's."
    if name in NEED_CENTERS and not (subject.head is not None and subject.head.has_preset_centers):
        return "It follows class centers, and this model has none."
    if name in NEED_FOUR_CLASSES and classes < 4:
        return f"It compares four classes, and this model has {classes}."
    return ""


def resolve_objective(name: str, subject: Subject) -> Objective:
    """The objective itself."""
    check_objective_name(name)
    if name in PAPER:
        return PAPER[name](subject.head)
    # Objectives on logits alone take no notice of the head.
    return OBJECTIVES[name](subject.head)  # type: ignore[arg-type]
