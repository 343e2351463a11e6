"""What the records of an evaluation say, as readers see them: plain values, no connection to the file left open."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

if TYPE_CHECKING:
    import maxmahal.records.verdict

Origin = Literal["suite", "diagnosis", "transfer"]
Scope = Literal["all", "survivors"]


AND = " and "
"""Between the devices of an evaluation that went on elsewhere than it was begun."""


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
    """Whether the model is wrong about the attacked image; of a model that draws, more often than not."""
    right_share: Float[np.ndarray, " n"]
    """How often the model is right about it: 0 or 1, or the mean over the draws of a model that draws."""
    distortion: Float[np.ndarray, " n"]
    """How far the image moved in the threat's norm; NaN where the attack has none to tell."""
    iterations: Int[np.ndarray, " n"]
    """Steps, tries or queries of the attack; -1 where an outside package does not tell. So the next three."""
    forward: Int[np.ndarray, " n"]
    backward: Int[np.ndarray, " n"]
    queries: Int[np.ndarray, " n"]
    broken_8bit: Int[np.ndarray, " n"] | None = None
    """Whether the image still breaks the model once it is rounded to bytes: 1, 0, or -1 where nobody looked."""

    def __len__(self) -> int:
        return len(self.sample)


@dataclass(frozen=True)
class Rating:
    """What a stage cost in all, summed over its chunks."""

    seconds: float
    forward: int
    backward: int
    queries: int


@dataclass(frozen=True)
class StageRecords:
    """One attack of an evaluation with everything that is known about it so far."""

    name: str
    """Unique within the evaluation, such as "apgd-margin"; the first stage of all is "clean"."""
    title: str
    """For people, such as "APGD-100, margin"."""
    kind: str
    """Which attack of the registry ran: "clean", "pgd", "apgd", "carlini", "square", "transfer", ..."""
    settings: dict[str, Any]
    """Everything it was told, resolved: steps, objective, epsilon, restarts, seed, ..."""
    threat: str
    """Such as "Linf 8/255"; empty for what has no ball (noise, rotation, minimum-norm attacks)."""
    scope: Scope
    """Whether it ran on every sample, or only on those that the counting stages before it had left standing."""
    origin: Origin
    """Who put it into the plan; a stage that a diagnosis added names the check in ``settings["because"]``."""
    counts: bool
    """Whether it belongs to the evaluation's own threat, and so to the worst case."""
    skipped: str
    """Why it did not run at all, as a sentence; empty otherwise."""
    finished: bool
    planned: int
    """How many samples it has to attack (0 as long as that is not known)."""
    columns: Columns
    rating: Rating


@dataclass(frozen=True)
class Finding:
    """What one diagnostic check saw."""

    check: str
    """The check's name, such as "zero-gradients"."""
    title: str
    flagged: bool
    sentence: str
    """What it means, in plain words, with its numbers; also when nothing is wrong."""
    remedy: str
    """Which attack to add, as a sentence; empty where nothing is to be done."""
    adds: tuple[str, ...] = ()
    """Names of remedies (see ``diagnose.remedies``) that a suite which mends itself adds to its plan."""
    numbers: dict[str, Any] = field(default_factory=dict)
    """What was measured: numbers, lists of numbers, texts; curves as {"x": [...], "y": [...]}."""


@dataclass(frozen=True)
class Picture:
    """A clean image beside the one that broke it."""

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
    """Feature space in two dimensions; ``stage`` is "clean" or the attack whose images these are the features of."""

    stage: str
    sample: Int[np.ndarray, " n"]
    label: Int[np.ndarray, " n"]
    xy: Float[np.ndarray, "n 2"]


@dataclass(frozen=True)
class Evaluation:
    """One model on one data set under one suite."""

    name: str
    """The model's name, unique within the folder together with suite, ball, data, seed and samples."""
    target: str
    """What the user asked for: a run folder, a checkpoint, ``module:factory``."""
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
    """A run's metrics, one entry an epoch: epoch, train_seconds, test_accuracy, train_loss, ...; [] without a run."""
    stages: tuple[StageRecords, ...]
    findings: tuple[Finding, ...]
    pictures: tuple[Picture, ...]
    points: tuple[Points, ...]
    centers_xy: Float[np.ndarray, "l 2"] | None
    """The class centers in the same plane as ``points``; None for losses without centers."""
    plane: str
    """How features came into the plane: "features" (two dimensions), "circle of centers", "centers" (their principal
    axes), "class means", or "" without any."""
    finished: bool
    comparison: bool = False
    """Whether the suite repeats the paper's protocol, so that its accuracies are no measure of robustness."""

    @property
    def verdict(self) -> "maxmahal.records.verdict.Verdict":
        """What ``give_verdict`` says: clean and robust accuracy, how far to trust them, and all of it in a sentence."""
        from maxmahal.records.verdict import give_verdict  # which is made of these very types

        return give_verdict(self)

    def stage(self, name: str) -> StageRecords:
        """The stage of that name."""
        return next(stage for stage in self.stages if stage.name == name)
