"""The paper's own evaluation, quirks and all, to compare with its tables; not a measure of robustness.

What makes it weak, kept on purpose: only the last iterate counts; an untargeted attack flees the model's own
prediction, so that images which are already wrong can be pushed back to right; a targeted one has a single random
target and scores accuracy on the true labels, whether or not the target was reached; epsilons are k/256; noise may
leave the pixel range. ``Result.accuracy`` of the results is the number that the paper prints.
"""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.attacks.engine import DEFAULT_ENGINE, Engine, LabelSource
from maxmahal.attacks.mim import mim
from maxmahal.attacks.objectives import Objective, cross_entropy, margin, own_loss
from maxmahal.attacks.pgd import pgd
from maxmahal.attacks.prepare import Prepared
from maxmahal.attacks.result import Result
from maxmahal.attacks.spsa import spsa
from maxmahal.attacks.targets import Targets
from maxmahal.attacks.threats import Linf
from maxmahal.attacks.transforms import gaussian_noise, random_rotation
from maxmahal.errors import ArgumentError
from maxmahal.models import Classifier, Head

STEP_SIZE = 2 / 256


@dataclass(frozen=True)
class PaperCarliniWagner:
    """How the paper runs Carlini and Wagner's attack, on the first 500 test images, with un,2 and tar,2.

    It averages the distortion over all of them, a failure counting as none.
    """

    steps: int = 1000
    search_steps: int = 9
    learning_rate: float = 0.005
    initial_constant: float = 0.01
    images: int = 500


def paper_objective(head: Head) -> Objective:
    """un,1 and tar,1 (appendix B.4) for heads with preset centers; cross-entropy for all others."""
    return own_loss(head) if head.has_preset_centers else cross_entropy()


def paper_pgd(
    model: Classifier | Prepared,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    *,
    epsilon_256: int = 8,
    steps: int = 10,
    targeted: bool,
    seed: int,
    sample_ids: Int[Tensor, " n"] | None = None,
    targets: Targets = "random-other",
    engine: Engine = DEFAULT_ENGINE,
) -> Result:
    """PGD of Tables 1, 4 and 5: epsilon 8 or 16/256, 10 or 50 steps of 2/256 from one random start.

    ``targets`` is read only where ``targeted``. The released scripts draw them from the wrong classes in evaluation
    and from all of them in adversarial training, which is ``targets="random-any"``.
    """
    return pgd(
        model,
        images,
        labels,
        objective=paper_objective(_head(model)),
        threat=_threat(epsilon_256),
        steps=steps,
        step_size=STEP_SIZE,
        seed=seed,
        sample_ids=sample_ids,
        targets=targets if targeted else None,
        label_source="predicted",
        keep="last",
        engine=engine,
    )


def paper_mim(
    model: Classifier | Prepared,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    *,
    epsilon_256: int = 8,
    steps: int = 10,
    targeted: bool,
    seed: int,
    sample_ids: Int[Tensor, " n"] | None = None,
    targets: Targets = "random-other",
    engine: Engine = DEFAULT_ENGINE,
) -> Result:
    """MIM of Fig. 4: as :func:`paper_pgd`, but from the image itself and with a momentum that never fades."""
    return mim(
        model,
        images,
        labels,
        objective=paper_objective(_head(model)),
        threat=_threat(epsilon_256),
        steps=steps,
        step_size=STEP_SIZE,
        decay=1.0,
        seed=seed,
        sample_ids=sample_ids,
        targets=targets if targeted else None,
        label_source="predicted",
        keep="last",
        engine=engine,
    )


def paper_spsa(
    model: Classifier | Prepared,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    *,
    epsilon_256: int = 8,
    evaluations: int = 128,
    targeted: bool,
    seed: int,
    sample_ids: Int[Tensor, " n"] | None = None,
    targets: Targets = "random-other",
    label_source: LabelSource = "true",
    engine: Engine = DEFAULT_ENGINE,
) -> Result:
    """SPSA of Tables 2 and 3, on the first 1000 test images: 10 steps of Adam from a random start.

    Unlike PGD it is handed the true labels, and where the head has no preset centers it works on the margin of the
    label, as the library that the authors used does.
    """
    head = _head(model)
    return spsa(
        model,
        images,
        labels,
        objective=paper_objective(head) if head.has_preset_centers else margin(over_all=True),
        threat=_threat(epsilon_256),
        steps=10,
        evaluations=evaluations,
        delta=0.01,
        learning_rate=0.01,
        seed=seed,
        sample_ids=sample_ids,
        targets=targets if targeted else None,
        label_source=label_source,
        random_start=True,
        keep="last",
        engine=engine,
    )


def paper_noise(
    images: Float[Tensor, "n c h w"], *, seed: int, sample_ids: Int[Tensor, " n"]
) -> Float[Tensor, "n c h w"]:
    """Gaussian noise of Table 2, on the first 1000 test images: 0.05, not clipped to the pixel range."""
    return gaussian_noise(images, std=0.05, seed=seed, sample_ids=sample_ids, clip=False)


def paper_rotation(
    images: Float[Tensor, "n c h w"], *, seed: int, sample_ids: Int[Tensor, " n"]
) -> Float[Tensor, "n c h w"]:
    """Random rotation of Table 2, on 1000 test images: one angle each, uniform in ±30°."""
    return random_rotation(images, max_degrees=30.0, seed=seed, sample_ids=sample_ids)


def _threat(epsilon_256: int) -> Linf:
    if not (isinstance(epsilon_256, int) and 1 <= epsilon_256 <= 256):
        raise ArgumentError(f"epsilon_256 must be a whole number in 1..256, the paper's 8 or 16; got {epsilon_256}.")
    return Linf(f"{epsilon_256}/256")


def _head(model: Classifier | Prepared) -> Head:
    original = model.original if isinstance(model, Prepared) else model
    if not isinstance(original, Classifier):
        raise ArgumentError(
            f"The paper's objective depends on the head, so model must be a maxmahal.Classifier; "
            f"got a {type(original).__name__}."
        )
    return original.head
