"""The fast gradient sign method (Goodfellow et al.): one step of the whole radius."""

from jaxtyping import Int
from torch import Tensor

from maxmahal.attacks.checks import check_threat
from maxmahal.attacks.engine import DEFAULT_ENGINE, Case, Engine, LabelSource, run
from maxmahal.attacks.objectives import CROSS_ENTROPY, Objective
from maxmahal.attacks.oracle import Model
from maxmahal.attacks.pgd import ProjectedDescent
from maxmahal.attacks.result import Result
from maxmahal.attacks.targets import Targets
from maxmahal.attacks.threats import Images, Threat


def fgsm(
    model: Model,
    images: Images,
    labels: Int[Tensor, " n"],
    threat: Threat | str | float,
    *,
    objective: Objective = CROSS_ENTROPY,
    seed: int = 0,
    sample_ids: Int[Tensor, " n"] | None = None,
    targets: Targets = None,
    label_source: LabelSource = "true",
    engine: Engine = DEFAULT_ENGINE,
) -> Result:
    """The image one full step down the gradient; ``seed`` matters only for random targets."""
    threat = check_threat(threat, images)
    method = ProjectedDescent(threat, 1, threat.radius, seed, random_start=False)
    case = Case(images, labels, seed, sample_ids, targets, label_source)
    return run(method, model, case, objective=objective, engine=engine, threat=threat)
