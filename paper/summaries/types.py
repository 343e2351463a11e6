"""A summary of an evaluation, as pages read it, and the paired test between two."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool

from maxmahal.errors import ArgumentError
from maxmahal.records.statistics import Comparison, Rate
from maxmahal.records.types import Scope
from maxmahal.records.verdict import Trust


@dataclass(frozen=True)
class StageSummary:
    """One attack; see ``StageRecords`` and ``StageVerdict`` for what the fields mean."""

    name: str
    title: str
    kind: str
    threat: str
    scope: Scope
    counts: bool
    skipped: str
    source: str
    """For a transfer, the model that the images were crafted on."""
    samples: int
    """How many it attacked."""
    accuracy: Rate | None
    broke: int
    distortion: float | None
    """The mean, where it is a minimum-norm attack that broke any."""
    distortion_error: float | None = None
    """The standard error of that mean; None in older summaries."""
    right: Bool[np.ndarray, " n"] | None = field(default=None, compare=False)
    """Which samples are correct after this attack alone, in the order of their ids; None if it did not attack all of
    them, and in older summaries."""


@dataclass(frozen=True)
class Summary:
    """One finished evaluation."""

    name: str
    data: str
    suite: str
    suite_version: int
    seed: int
    samples: int
    limited: bool
    """Whether fewer images were asked for than the suite takes by default."""
    norm: str
    epsilon: str
    radius: float
    model_fingerprint: str
    data_fingerprint: str
    model: dict[str, Any]
    """kind, parameters, loss, backbone, epoch, table (the paper's rows), settings, stochastic, draws."""
    environment: dict[str, Any]
    """device, versions, started, commit."""
    clean: Rate
    robust: Rate
    trust: Trust
    stages: tuple[StageSummary, ...]
    right: Bool[np.ndarray, " n"]
    """Which samples are correct before any attack, in the order of their ids."""
    stands: Bool[np.ndarray, " n"]
    """Which of them no counting attack broke."""
    answered: Rate | None = None
    """Classes of which any image is correct, of all classes; None if not recorded."""
    near: Bool[np.ndarray, " n"] | None = None
    """Which clean samples are answered with the right superclass; None if not known."""

    def stage(self, name: str) -> StageSummary | None:
        """The stage of that name, if there is one."""
        return next((stage for stage in self.stages if stage.name == name), None)

    def kept(self, name: str) -> Bool[np.ndarray, " n"] | None:
        """Which samples are correct before and after an attack; None if not recorded.

        An attack away from the model's own prediction turns some wrong answers right: they do not count here, and for
        all others it is an attack away from the true label.
        """
        stage = self.stage(name)
        return None if stage is None or stage.right is None else self.right & stage.right

    def attacked_like(self, other: "Summary") -> bool:
        """Whether both are of the same images under the same attacks with the same seed."""
        facts = ("data_fingerprint", "samples", "seed", "suite", "suite_version", "norm", "radius")
        return all(getattr(self, name) == getattr(other, name) for name in facts)


def pair_up(first: Summary, second: Summary) -> Comparison:
    """Two models under one suite on the same images, by what survives; ``compare`` from summaries alone."""
    _refuse_other_attacks(first, second)
    return Comparison.of(first.stands, second.stands)


def pair_stage(first: Summary, second: Summary, stage: str) -> Comparison | None:
    """Two models under one attack of one suite, by what each keeps; None if not known of both."""
    _refuse_other_attacks(first, second)
    ours, theirs = first.kept(stage), second.kept(stage)
    return None if ours is None or theirs is None else Comparison.of(ours, theirs)


def pair_clean(first: Summary, second: Summary) -> Comparison:
    """Two models on the same clean images."""
    _refuse_other_images(first, second)
    return Comparison.of(first.right, second.right)


def pair_near(first: Summary, second: Summary) -> Comparison | None:
    """Two models on the same clean images, by the superclass of their answers; None if not known of both."""
    _refuse_other_images(first, second)
    return None if first.near is None or second.near is None else Comparison.of(first.near, second.near)


def _refuse_other_attacks(first: Summary, second: Summary) -> None:
    _refuse_other_images(first, second)
    attackers = [(each.suite, each.suite_version, each.norm, each.radius) for each in (first, second)]
    if attackers[0] != attackers[1]:
        raise ArgumentError(
            f"{first.name} and {second.name} were attacked differently ({first.suite} at {first.norm} "
            f"{first.epsilon}, {second.suite} at {second.norm} {second.epsilon}), so they cannot be paired."
        )


def _refuse_other_images(first: Summary, second: Summary) -> None:
    if first.data_fingerprint != second.data_fingerprint or len(first.right) != len(second.right):
        raise ArgumentError(
            f"{first.name} and {second.name} were evaluated on different images, so they cannot be paired; "
            "evaluate both with the same --data and --limit."
        )
