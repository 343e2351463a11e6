"""The fast gradient sign method (Goodfellow et al.): one step of the whole radius."""

from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.attacks.engine import DEFAULT_ENGINE, Engine, LabelSource
from maxmahal.attacks.objectives import CROSS_ENTROPY, Objective
from maxmahal.attacks.oracle import Model
from maxmahal.attacks.pgd import pgd
from maxmahal.attacks.result import Result
from maxmahal.attacks.targets import Targets
from maxmahal.attacks.threats import Threat, as_threat


def fgsm(
    model: Model,
    images: Float[Tensor, "n c h w"],
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
    threat = as_threat(threat)
    return pgd(
        model,
        images,
        labels,
        objective=objective,
        threat=threat,
        steps=1,
        step_size=threat.radius,
        seed=seed,
        sample_ids=sample_ids,
        targets=targets,
        label_source=label_source,
        random_start=False,
        engine=engine,
    )
