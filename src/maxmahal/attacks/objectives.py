"""What an attack minimises: one value per sample, passed to any attack as a plain value.

Without targets an objective pushes away from the label; with targets it pulls towards them. Objectives see features and
logits, so no attack needs to know which loss a model was trained with.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from maxmahal.errors import ArgumentError, SettingsError, check_choice
from maxmahal.models import Classifier, Head


@dataclass(frozen=True)
class Outputs:
    """What a model returns for a batch; ``features`` is None for a model that does not show them."""

    logits: Float[Tensor, "n l"]
    features: Float[Tensor, "n d"] | None = None


def plain_classifier(model: object) -> Classifier | None:
    """The model itself if a call of it computes its features and the head's logits of them, and nothing else.

    Not so with hooks, or with a forward method of its own.
    """
    if not isinstance(model, Classifier) or type(model).forward is not Classifier.forward:
        return None
    changed = "forward" in vars(model) or model._forward_hooks or model._forward_pre_hooks
    return None if changed else model


def model_outputs(model: nn.Module, images: Float[Tensor, "n c h w"]) -> Outputs:
    """Logits and, where the model shows them, the features behind them."""
    if (classifier := plain_classifier(model)) is None:
        return Outputs(model(images))
    features = classifier.features(images)
    return Outputs(classifier.head.logits(features), features)


Objective = Callable[[Outputs, Tensor, Tensor | None], Tensor]
"""A function of (outputs, labels, targets) with one value per sample, to be minimised.

An attribute ``zero_is_success`` that is true promises that a value below zero means success.
"""


@dataclass(frozen=True, repr=False)
class NamedObjective:
    """A function with a name, and whether its zero is the decision boundary."""

    name: str
    function: Objective
    zero_is_success: bool = False

    def __call__(
        self, outputs: Outputs, labels: Int[Tensor, " n"], targets: Int[Tensor, " n"] | None
    ) -> Float[Tensor, " n"]:
        """Smaller is better for the attacker."""
        return self.function(outputs, labels, targets)

    def __repr__(self) -> str:
        return f"Objective({self.name})"


def zero_is_success(objective: Objective) -> bool:
    """Whether a value below zero means success, so that an attack may stop pushing there."""
    return bool(getattr(objective, "zero_is_success", False))


def custom(function: Objective, *, name: str = "custom", zero_is_success: bool = False) -> Objective:
    """A function of yours, with a name for records; does a value below zero mean success?"""
    return NamedObjective(name, function, zero_is_success)


def cross_entropy() -> Objective:
    """The non-adaptive objective: log softmax(h)_y, whose gradient can vanish in float32 on MMC."""

    def value(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        if targets is None:
            return -F.cross_entropy(outputs.logits, labels, reduction="none")
        return F.cross_entropy(outputs.logits, targets, reduction="none")

    return NamedObjective("cross-entropy", value)


def own_loss(head: Head) -> Objective:
    """The model's own training loss; for MMC the paper's un,1 and tar,1: -L(z, y) and L(z, y_t) (appendix B.4)."""

    def value(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        features = features_of(outputs, "own_loss", "class_logit()", head)
        return -head.per_sample(features, labels) if targets is None else head.per_sample(features, targets)

    return NamedObjective("own", value)


def own_loss_difference(head: Head) -> Objective:
    """The paper's un,2 and tar,2: L(z, ỹ) - L(z, y) with ỹ the best wrong class, and L(z, y_t) - L(z, y) (B.4)."""

    def value(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        features = features_of(outputs, "own_loss_difference", "margin()", head)
        wanted = other_logits(outputs.logits, labels).argmax(dim=1) if targets is None else targets
        return head.per_sample(features, wanted) - head.per_sample(features, labels)

    return NamedObjective("own-difference", value, zero_is_success=head.zero_is_boundary)


def class_logit() -> Objective:
    """h_y, or -h_t: what un,1 and tar,1 are on logits alone, for models that show no features."""

    def value(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        return pick(outputs.logits, labels) if targets is None else -pick(outputs.logits, targets)

    return NamedObjective("class-logit", value)


def margin(*, over_all: bool = False) -> Objective:
    """h_y - max_{k≠y} h_k, or h_y - h_t; for MMC the paper's un,2 and tar,2 (appendix B.4). It never saturates.

    With ``over_all`` a target must exceed every other class, max_{k≠t} h_k - h_t, not the true one alone.
    """

    def value(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        logits = outputs.logits
        if targets is None:
            return pick(logits, labels) - other_logits(logits, labels).amax(dim=1)
        to_beat = other_logits(logits, targets).amax(dim=1) if over_all else pick(logits, labels)
        return to_beat - pick(logits, targets)

    return NamedObjective("margin-over-all" if over_all else "margin", value, zero_is_success=True)


def dlr() -> Objective:
    """Difference of logits ratio: the margin over h_(1) - h_(3), or h_(1) - ½(h_(3) + h_(4)) towards a target."""

    def value(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        logits = outputs.logits
        needed = 3 if targets is None else 4
        if logits.shape[1] < needed:
            raise ArgumentError(
                f"dlr needs at least {needed} classes{'' if targets is None else ' with targets'}; "
                f"the model has {logits.shape[1]}. Use margin()."
            )
        best = logits.topk(needed, dim=1).values
        floor = best[:, 2] if targets is None else 0.5 * (best[:, 2] + best[:, 3])
        return margin()(outputs, labels, targets) / (best[:, 0] - floor).clamp_min(1e-12)

    return NamedObjective("dlr", value, zero_is_success=True)


def nearest_center(head: Head) -> Objective:
    """½‖z - μ_t‖² with t the nearest wrong center, chosen anew at every step; or the target's."""
    if head.class_centers is None:
        raise ArgumentError(f"nearest_center needs a head with centers; {type(head).__name__} has none. Use margin().")
    centers = head.class_centers.detach()

    def value(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        features = features_of(outputs, "nearest_center", "margin()", head)
        if targets is None:
            distances = torch.cdist(features.detach().to(centers.dtype), centers)
            targets = distances.scatter(1, labels[:, None], torch.inf).argmin(dim=1)
        return 0.5 * (features - centers[targets]).square().sum(dim=1)

    return NamedObjective("nearest-center", value)


def pick(logits: Float[Tensor, "n l"], classes: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Each sample's logit of its own class in ``classes``."""
    return logits.gather(1, classes[:, None]).squeeze(1)


def other_logits(logits: Float[Tensor, "n l"], classes: Int[Tensor, " n"]) -> Float[Tensor, "n l"]:
    """The logits with each sample's own class in ``classes`` out of the competition."""
    return logits.scatter(1, classes[:, None], -torch.inf)


def features_of(outputs: Outputs, name: str, instead: str, head: Head) -> Float[Tensor, "n d"]:
    """The features, or a sentence about the model that has none, or none that the head could take."""
    if outputs.features is None:
        raise ArgumentError(f"{name} needs the model's features; attack a maxmahal.Classifier, or use {instead}.")
    width, classes = outputs.features.shape[1], outputs.logits.shape[1]
    if width != head.feature_dim or classes > head.num_classes:
        raise ArgumentError(
            f"{name} was given a head for {head.num_classes} classes and features of width {head.feature_dim}, and the "
            f"model has {classes} classes and width {width}; give it the model's own: {name}(model.head)."
        )
    return outputs.features


# The defaults of attacks.
MARGIN, MARGIN_OVER_ALL, CROSS_ENTROPY = margin(), margin(over_all=True), cross_entropy()


@dataclass(frozen=True)
class ObjectiveEntry:
    """An objective of settings files, and what it needs of a model."""

    make: Callable[[Any], Objective]
    """From the head that it adapts to; objectives on logits alone ignore the head."""
    needs_head: bool = False
    needs_preset_centers: bool = False
    fewest_classes: int = 2

    def __call__(self, head: Head | None) -> Objective:
        """The objective for a model with this head."""
        return self.make(head)


def _by_protocol(of_centers: Callable[[Head], Objective], otherwise: Objective) -> ObjectiveEntry:
    """As the paper attacks each model: by ``of_centers`` where the head has preset centers."""
    return ObjectiveEntry(lambda head: of_centers(head) if head is not None and head.has_preset_centers else otherwise)


OBJECTIVES: dict[str, ObjectiveEntry] = {
    "own": ObjectiveEntry(own_loss, needs_head=True),
    "own-difference": ObjectiveEntry(own_loss_difference, needs_head=True),
    "cross-entropy": ObjectiveEntry(lambda _: cross_entropy()),
    "class-logit": ObjectiveEntry(lambda _: class_logit()),
    "margin": ObjectiveEntry(lambda _: margin()),
    "margin-over-all": ObjectiveEntry(lambda _: margin(over_all=True)),
    "dlr": ObjectiveEntry(lambda _: dlr(), fewest_classes=4),
    "nearest-center": ObjectiveEntry(nearest_center, needs_preset_centers=True),
    # The paper's un,1 and tar,1 (appendix B.4) and cross-entropy; its un,2 and tar,2 and C&W's margin; its SPSA, whose
    # library works on the margin unless it is given a loss.
    "paper": _by_protocol(own_loss, CROSS_ENTROPY),
    "paper-difference": _by_protocol(own_loss_difference, MARGIN_OVER_ALL),
    "paper-spsa": _by_protocol(own_loss, MARGIN_OVER_ALL),
}
"""Objectives by the name that suites use."""


def find_objective(name: str) -> ObjectiveEntry:
    """The entry of that name, or an error that names the nearest."""
    check_choice("objective", name, OBJECTIVES, SettingsError)
    return OBJECTIVES[name]
