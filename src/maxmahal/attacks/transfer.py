"""Transfer: craft images on one model and let another one classify them (paper Fig. 4).

An attack here is any function of a model, images and labels, so that it can adapt to whichever model it crafts on:

    def craft(model, images, labels):
        return mim(model, images, labels, "8/255", objective=own_loss(model.head), keep="last")

Craft with ``keep="last"``: images that stop just across the source's boundary seldom cross another model's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor

from maxmahal.attacks.checks import check_images, check_model
from maxmahal.attacks.mim import mim
from maxmahal.attacks.objectives import Objective
from maxmahal.attacks.oracle import Model, judge
from maxmahal.attacks.result import Result
from maxmahal.attacks.threats import ANY_BOUNDS, Images, Threat
from maxmahal.errors import ArgumentError

Crafting = Callable[[Model, Tensor, Tensor], Result]


@dataclass(frozen=True)
class Transferred:
    """Images crafted on a source, and the predictions of the source and the target."""

    images: Images
    predictions: Int[Tensor, " n"]
    """The prediction of the target itself, in float32, for each image."""
    fooled_source: Bool[Tensor, " n"]
    fooled_target: Bool[Tensor, " n"]
    """Whether that differs from the true label; so do images that the target got wrong before."""

    @property
    def accuracy(self) -> float:
        """Share of the images that the target gets right."""
        return float((~self.fooled_target).double().mean())


def transfer(attack: Crafting, source: Model, target: Model, images: Images, labels: Int[Tensor, " n"]) -> Transferred:
    """Images that ``attack`` crafts on the source, judged by the target."""
    _check(target, images, labels)
    return _judge(_craft(attack, source, images, labels), target, labels)


def transfer_matrix(
    models: Mapping[str, Model], attack: Crafting, images: Images, labels: Int[Tensor, " n"]
) -> dict[tuple[str, str], float]:
    """The accuracy of each target, the source among them, on the images crafted on each source, by (source, target)."""
    if not models:
        raise ArgumentError("models must hold at least one model by its name; got none.")
    for model in models.values():
        _check(model, images, labels)
    accuracies = {}
    for source in models:
        crafted = _craft(attack, models[source], images, labels)
        for target in models:
            accuracies[source, target] = _judge(crafted, models[target], labels).accuracy
    return accuracies


def craft_for_transfer(
    model: Model,
    images: Images,
    labels: Int[Tensor, " n"],
    threat: Threat | str | float,
    *,
    objective: Objective,
    steps: int = 10,
    step_size: str | float | None = None,
    decay: float = 1.0,
    seed: int = 0,
    sample_ids: Int[Tensor, " n"] | None = None,
) -> Result:
    """MIM's last iterate on a source model, as in the paper's Fig. 4."""
    settings = {"steps": steps, "step_size": step_size, "decay": decay, "seed": seed, "sample_ids": sample_ids}
    return mim(model, images, labels, threat, objective=objective, keep="last", **settings)  # type: ignore[arg-type]


def _check(target: Model, images: Tensor, labels: Tensor) -> None:
    """Before any crafting: whether the target can judge these images."""
    check_images(images, labels, None, ANY_BOUNDS)
    check_model(target, images)
    classes = judge(target, images[:1]).logits.shape[1]
    if int(labels.max()) >= classes:
        raise ArgumentError(
            f"labels must lie in 0..{classes - 1} because a model has {classes} classes; got {int(labels.max())}."
        )


def _craft(attack: Crafting, source: Model, images: Tensor, labels: Tensor) -> Result:
    crafted = attack(source, images, labels)
    if not isinstance(crafted, Result):
        raise ArgumentError(
            f"attack must return what an attack returns, such as pgd(model, images, labels, ...); "
            f"got a {type(crafted).__name__}."
        )
    return crafted


def _judge(crafted: Result, target: Model, labels: Tensor) -> Transferred:
    predictions = judge(target, crafted.images).predictions
    return Transferred(crafted.images, predictions, crafted.fooled, predictions != labels)
