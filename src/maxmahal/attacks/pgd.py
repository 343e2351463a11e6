"""Projected gradient descent (Madry et al.): the white-box attack, and the crafting step of adversarial training."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.attacks.checks import check_positive, check_threat
from maxmahal.attacks.engine import DEFAULT_ENGINE, Case, Engine, LabelSource, run
from maxmahal.attacks.method import State, Trial
from maxmahal.attacks.objectives import CROSS_ENTROPY, MARGIN, Objective, Outputs, plain_classifier
from maxmahal.attacks.oracle import (
    FOOLED,
    Model,
    Oracle,
    Samples,
    is_training,
    make_oracle,
    near_one,
    rescaled,
    without_gaps,
)
from maxmahal.attacks.result import Result
from maxmahal.attacks.targets import Targets
from maxmahal.attacks.threats import Images, Threat, as_threat, find_step_size
from maxmahal.errors import check_count
from maxmahal.models import Classifier
from maxmahal.random import content_ids

Compiler = Callable[[Callable[..., Any]], Callable[..., Any]]


def pgd(
    model: Model,
    images: Images,
    labels: Int[Tensor, " n"],
    threat: Threat | str | float,
    *,
    objective: Objective = MARGIN,
    steps: int = 50,
    step_size: str | float | None = None,
    seed: int = 0,
    sample_ids: Int[Tensor, " n"] | None = None,
    targets: Targets = None,
    label_source: LabelSource = "true",
    random_start: bool = True,
    restarts: int = 1,
    keep: Literal["best", "last"] = "best",
    engine: Engine = DEFAULT_ENGINE,
) -> Result:
    """Images inside the threat that make ``objective`` small.

    ``keep="best"`` returns, for each sample, the iterate that fools the model with the smallest objective, or the
    smallest objective if none does; ``"last"`` returns the last iterate, as the paper's code does. ``step_size=None``
    takes max(2.5 / steps, 0.05) of epsilon. Several targets per sample (``targets="all-others"``) are tried in turn.
    ``random_start=False`` makes all restarts the same. The model's parameters receive no gradients.
    """
    threat = check_threat(threat, images)
    method = ProjectedDescent(threat, steps, find_step_size(step_size, threat, steps), seed, random_start)
    case = Case(images, labels, seed, sample_ids, targets, label_source)
    return run(method, model, case, objective=objective, engine=engine, keep=keep, restarts=restarts, threat=threat)


def craft(
    model: Model,
    images: Images,
    labels: Int[Tensor, " n"],
    threat: Threat | str | float,
    *,
    objective: Objective = CROSS_ENTROPY,
    steps: int = 10,
    step_size: str | float | None = None,
    seed: int = 0,
    sample_ids: Int[Tensor, " n"] | None = None,
    targets: Int[Tensor, " n"] | None = None,
    start: Images | None = None,
    compiler: Compiler | None = None,
) -> Images:
    """PGD's last iterate from a random start, or from ``start``, for adversarial training in your own loop.

    Exactly ``steps`` forward and backward passes in the mode the model is in; nothing is checked or read back. All
    samples are seen at once, so ``objective`` may close over the batch. Give each training step its own ``seed``.
    ``compiler``, such as ``torch.compile``, is applied to what lies between the passes of a ``Classifier``.
    """
    threat, images = as_threat(threat), images.detach()
    method = ProjectedDescent(threat, steps, find_step_size(step_size, threat, steps), seed, random_start=start is None)
    ids = content_ids(images, labels) if sample_ids is None else sample_ids
    samples = Samples(images, labels, labels, targets, ids, FOOLED)
    state = method.begin(samples, 0)
    if start is not None:
        state["moved"] = start.detach()
    if compiler is not None and (classifier := plain_classifier(model)) is not None:
        return _descend_compiled(method, classifier, samples, state["moved"], objective, compiler)
    oracle = make_oracle(model, objective, len(samples), eot_samples=1)
    oracle.splits = False
    for _ in range(steps):
        method.step(samples, state, oracle)
    return state["moved"]


@torch.no_grad()
def _descend_compiled(
    method: "ProjectedDescent",
    model: Classifier,
    samples: Samples,
    moved: Images,
    objective: Objective,
    compiler: Compiler,
) -> Images:
    """The same steps, as two compiled functions around the passes of the network instead of about 60 small kernels."""

    coupled = is_training(model)

    def begin_backward(features: Tensor, labels: Tensor, targets: Tensor | None) -> tuple[Tensor, Tensor]:
        def total(features: Tensor) -> Float[Tensor, ""]:
            return objective(Outputs(model.head.logits(features), features), labels, targets).sum()

        return near_one(torch.func.grad(total)(features), coupled=coupled)

    def move(images: Images, moved: Images, gradient: Images, scales: Tensor) -> Images:
        gradient = without_gaps(rescaled(gradient, scales))
        return method.threat.project(images, method.threat.descend(moved, gradient, method.step_size))

    begin_backward, move = compiler(begin_backward), compiler(move)
    for _ in range(method.steps):
        seen = moved.detach().requires_grad_()
        with torch.enable_grad():
            features = model.features(seen)
        scaled, scales = begin_backward(features.detach(), samples.avoided, samples.targets)
        (gradient,) = torch.autograd.grad(features, seen, scaled)
        moved = move(samples.images, seen.detach(), gradient, scales)
    return moved


def random_start(images: Images, threat: Threat, seed: int, sample_ids: Int[Tensor, " n"]) -> Images:
    """Where ``craft`` begins by default: drawn beforehand, crafting can be recorded once and replayed."""
    return threat.random_start(images, sample_ids, "pgd-start", seed, 0)


@dataclass(frozen=True)
class ProjectedDescent:
    """A step against the gradient, then back into the threat."""

    threat: Threat
    steps: int
    step_size: float
    seed: int
    random_start: bool = True

    def __post_init__(self) -> None:
        check_count("steps", self.steps)
        check_positive("step_size", self.step_size)

    def begin(self, samples: Samples, attempt: int) -> State:
        """A random point of the threat, or the image itself."""
        moved = samples.images
        if self.random_start:
            moved = self.threat.random_start(samples.images, samples.ids, "pgd-start", self.seed, attempt)
        return {"moved": moved, "taken": torch.zeros_like(samples.labels)}

    def step(self, samples: Samples, state: State, oracle: Oracle) -> Trial:
        """One look, one step."""
        seen = state["moved"]
        look, gradient = oracle.gradient(seen, samples)
        state["moved"] = self.threat.project(samples.images, self.threat.descend(seen, gradient, self.step_size))
        state["taken"] = state["taken"] + 1
        return Trial(seen, look.predictions, look.values, state["taken"] >= self.steps)

    def final(self, state: State) -> Images:
        """Where the last step led."""
        return state["moved"]
