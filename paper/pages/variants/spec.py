"""What a grid of variants asks, and what stands on its page: arms, comparisons, predictions. No number of a result."""

from dataclasses import dataclass
from typing import Literal

Metric = Literal["clean", "worst", "early", "superclass", "near", "worst-superclass", "worst-near"]
METRICS: dict[Metric, str] = {
    "clean": "clean accuracy",
    "worst": "worst-case accuracy",
    "early": "test accuracy over the first epochs",
    "superclass": "superclass accuracy",
    "near": "share of mistakes within the superclass",
    "worst-superclass": "worst-case superclass accuracy",
    "worst-near": "share of worst-case mistakes within the superclass",
}
Expected = Literal["helps", "hurts", "equal", "does not help"]


@dataclass(frozen=True)
class Arm:
    """One way of training; its runs are called NAME-seed0, NAME-seed1, ..."""

    name: str
    title: str
    tick: str
    """For a figure's axis, where there is little room."""


@dataclass(frozen=True)
class Contrast:
    """One arm against another in one respect."""

    arm: str
    reference: str
    metric: Metric


@dataclass(frozen=True)
class Prediction:
    """What the paper says will come of some contrasts, in our words."""

    says: str
    where: str
    contrasts: tuple[Contrast, ...]
    expected: Expected


@dataclass(frozen=True)
class Study:
    """One grid, ``maxmahal reproduce variants-NAME``, or several that share their models."""

    name: str
    title: str
    asks: str
    arms: tuple[Arm, ...]
    contrasts: tuple[Contrast, ...]
    predictions: tuple[Prediction, ...] = ()
    without: str = ""
    """Why there is nothing to hold against the results, where the paper predicts nothing."""
    suite: str = "variants"
    epsilon: str = ""
    """Of the balls that the suite was run in the one that is meant, such as "1/255"; empty where there is only one."""
    superclasses: tuple[int, ...] = ()
    """Of every class, where it is asked how far mistakes go."""


def against(reference: str, arms: tuple[str, ...], *metrics: Metric) -> tuple[Contrast, ...]:
    """Each arm against one reference in each respect."""
    return tuple(Contrast(arm, reference, metric) for metric in metrics for arm in arms)
