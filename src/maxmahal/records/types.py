"""The records of an evaluation as plain values; the file is closed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

if TYPE_CHECKING:
    import maxmahal.records.verdict

Origin = Literal["suite", "diagnosis", "transfer"]
Scope = Literal["all", "survivors"]


AND = " and "
"""Between the devices of an evaluation that was continued on another device."""


@dataclass(frozen=True)
class Columns:
    """One row for each sample that a stage attacked, in the order of their ids."""

    sample: Int[np.ndarray, " n"]
    """The sample's id: its number in the data set's own file."""
    label: Int[np.ndarray, " n"]
    clean_prediction: Int[np.ndarray, " n"]
    prediction: Int[np.ndarray, " n"]
    """Of the attacked image, by the model itself in float32."""
    right_before: Bool[np.ndarray, " n"]
    broken: Bool[np.ndarray, " n"]
    """Whether the model misclassifies the attacked image; for a stochastic model, in more than half of the draws."""
    right_share: Float[np.ndarray, " n"]
    """How often the model classifies it correctly: 0 or 1, or the mean over the draws of a stochastic model."""
    distortion: Float[np.ndarray, " n"]
    """How far the image moved in the threat's norm; NaN if not recorded."""
    iterations: Int[np.ndarray, " n"]
    """Steps, tries or queries of the attack; -1 if not recorded, as in the next three columns."""
    forward: Int[np.ndarray, " n"]
    backward: Int[np.ndarray, " n"]
    queries: Int[np.ndarray, " n"]
    broken_8bit: Int[np.ndarray, " n"] | None = None
    """Whether the image still breaks the model after rounding to 8 bits: 1, 0, or -1 if not checked."""

    def __len__(self) -> int:
        return len(self.sample)

    def __repr__(self) -> str:
        return f"Columns({len(self)} samples, {int(self.broken.sum())} broken)"


@dataclass(frozen=True)
class Rating:
    """The cost of a stage, summed over its chunks."""

    seconds: float
    forward: int
    backward: int
    queries: int


@dataclass(frozen=True)
class ChunkRecords:
    """What is recorded of one chunk."""

    columns: Columns
    rating: Rating
    pictures: Sequence[tuple[int, np.ndarray, np.ndarray]]
    """A few samples for the gallery, each with its clean and its adversarial image."""
    points: Sequence[tuple[int, float, float]]
    """Samples, and where they are in the plane of features."""


@dataclass(frozen=True)
class StageRecords:
    """One attack of an evaluation, with its results so far."""

    name: str
    """Unique within the evaluation, such as "apgd-margin"; the first stage of all is "clean"."""
    title: str
    """For people, such as "APGD-100, margin"."""
    kind: str
    """Which attack of the registry ran: "clean", "pgd", "apgd", "carlini", "square", "transfer", ..."""
    settings: dict[str, Any]
    """All its settings, defaults included: steps, objective, epsilon, restarts, seed, ..."""
    threat: str
    """Such as "Linf 8/255"; empty for attacks without a ball (noise, rotation, minimum-norm attacks)."""
    scope: Scope
    """Whether it ran on all samples, or only on those that the counting stages before it did not break."""
    origin: Origin
    """Where it comes from; a stage added by the diagnostics names the check in ``settings["because"]``."""
    counts: bool
    """Whether it counts towards the worst case."""
    skipped: str
    """Why it was skipped, as a sentence; empty if it was not."""
    finished: bool
    planned: int
    """How many samples it attacks (0 until that is known)."""
    columns: Columns
    rating: Rating

    @property
    def is_minimum_norm(self) -> bool:
        """Whether it looked for the nearest adversarial image: it has distances, and no ball around the clean one."""
        return not self.threat and bool(np.isfinite(self.columns.distortion).any())

    @property
    def mean_distortion(self) -> float | None:
        """The mean distance of the adversarial images of samples that were correct before."""
        columns = self.columns
        found = columns.distortion[columns.broken & columns.right_before & np.isfinite(columns.distortion)]
        return float(found.mean()) if len(found) else None


@dataclass(frozen=True)
class Finding:
    """The result of one diagnostic check."""

    check: str
    """The check's name, such as "zero-gradients"."""
    title: str
    flagged: bool
    sentence: str
    """The result with its numbers, in words; also if nothing is wrong."""
    remedy: str
    """Which attack to add, as a sentence; empty if none."""
    adds: tuple[str, ...] = ()
    """Names of remedies (see ``diagnose/remedies.toml``): attacks that a suite with ``mend = true`` adds."""
    numbers: dict[str, Any] = field(default_factory=dict)
    """What was measured: numbers, lists of numbers, texts; curves as {"x": [...], "y": [...]}."""


@dataclass(frozen=True)
class Picture:
    """A clean image and the adversarial one."""

    sample: int
    stage: str
    label: int
    clean_prediction: int
    prediction: int
    distortion: float
    clean: Float[np.ndarray, "c h w"]
    adversarial: Float[np.ndarray, "c h w"]


@dataclass(frozen=True)
class Points:
    """Features in two dimensions, of the clean images or of the images of one attack."""

    stage: str
    sample: Int[np.ndarray, " n"]
    label: Int[np.ndarray, " n"]
    xy: Float[np.ndarray, "n 2"]


class Identity(NamedTuple):
    """What identifies an evaluation within a folder."""

    name: str
    data: str
    suite: str
    seed: int
    samples: int
    norm: str
    radius: float


@dataclass(frozen=True)
class Evaluation:
    """One model on one data set under one suite."""

    name: str
    """The model's name, unique within the folder together with suite, ball, data, seed and samples."""
    target: str
    """What the user named: a run folder, a checkpoint, ``module:factory``."""
    data: str
    suite: str
    suite_version: int
    suite_about: str
    seed: int
    samples: int
    norm: str
    epsilon: str
    """As written, such as "8/255"; ``radius`` is the number."""
    radius: float
    model_fingerprint: str
    data_fingerprint: str
    class_names: tuple[str, ...]
    model: dict[str, Any]
    """kind ("classifier", "module", "function"), parameters, loss (name or ""), settings (a run's table, or {}),
    table (the paper's row, such as "Table 1, MMC-10; Table 5, ...", or ""), epoch, stochastic (bool), draws (int)."""
    environment: dict[str, Any]
    """versions (dict), device (several with AND between them), threads, commit (of the package or ""), command
    (to reproduce it), started."""
    training: list[dict[str, Any]]
    """A run's metrics, one entry per epoch: epoch, train_seconds, test_accuracy, train_loss, ...; [] without a run."""
    stages: tuple[StageRecords, ...]
    findings: tuple[Finding, ...]
    pictures: tuple[Picture, ...]
    points: tuple[Points, ...]
    centers_xy: Float[np.ndarray, "l 2"] | None
    """The class centers in the plane of ``points``; None for losses without centers."""
    plane: str
    """How features were projected: "features" (two dimensions), "circle of centers", "centers" (their principal
    axes), "class means", or "" without any."""
    finished: bool
    comparison: bool = False
    """Whether the suite repeats the paper's protocol: its accuracies do not measure robustness."""
    notes: tuple[str, ...] = ()
    """Likely mistakes of the user, as sentences: the verdict ends with them."""

    def __repr__(self) -> str:
        state = "finished" if self.finished else "not finished"
        return f"Evaluation({self.name}, {self.suite} at {self.norm} {self.epsilon}, {self.samples:,} samples, {state})"

    @property
    def verdict(self) -> "maxmahal.records.verdict.Verdict":
        """The result of ``give_verdict``: clean and robust accuracy, how reliable they are, and a sentence."""
        from maxmahal.records.verdict import give_verdict  # which imports these types

        return give_verdict(self)

    @property
    def identity(self) -> Identity:
        """What distinguishes it from the others in its folder."""
        return Identity(*(getattr(self, name) for name in Identity._fields))

    def stage(self, name: str) -> StageRecords:
        """The stage of that name."""
        return next(stage for stage in self.stages if stage.name == name)


def unique_names(evaluations: Sequence[Evaluation]) -> list[str]:
    """One unique name per evaluation: "a", or "a (30 samples)" if there is another evaluation of the same model.

    If two do not differ, as in a folder and its copy, they are numbered.
    """
    names = []
    for each in evaluations:
        columns = zip(*(_marks(other) for other in evaluations if other.name == each.name), strict=True)
        differing = [mark for mark, column in zip(_marks(each), columns, strict=True) if len(set(column)) > 1]
        names.append(f"{each.name} ({', '.join(differing)})" if differing else each.name)
    return [
        f"{name} (no. {names[:place].count(name) + 1})" if names.count(name) > 1 else name
        for place, name in enumerate(names)
    ]


def _marks(each: Evaluation) -> tuple[str, ...]:
    suite = (each.suite, f"version {each.suite_version}", f"{each.norm} {each.epsilon}")
    return each.data, *suite, f"seed {each.seed}", f"{each.samples} samples", each.model_fingerprint[:8]
