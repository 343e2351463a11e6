"""The kinds of attack a suite can name. A new one is one more function, and a line in ``KINDS``.

The keyword arguments of a kind are its options in a suite's TOML, types and typos checked.
"""

from collections.abc import Callable
from typing import Literal

import torch

from maxmahal import attacks
from maxmahal.attacks import Linf
from maxmahal.evaluate.aims import resolve_objective
from maxmahal.evaluate.asking import Asked, Found, in_ball, moved, nearest, shown
from maxmahal.evaluate.judging import judge

LabelSource = Literal["true", "predicted"]
Keep = Literal["best", "last"]


def clean(asked: Asked) -> Found:
    """The images as they are."""
    return shown(asked, asked.images, torch.zeros_like(asked.labels))


def fgsm(asked: Asked, *, objective: str = "cross-entropy") -> Found:
    """One step of the size of the ball."""
    return in_ball(asked, attacks.fgsm, objective=asked.aim(objective))


def pgd(
    asked: Asked,
    *,
    objective: str = "margin",
    steps: int = 50,
    step_size: str | None = None,
    restarts: int = 1,
    targets: str | None = None,
    label_source: LabelSource = "true",
    random_start: bool = True,
    keep: Keep = "best",
) -> Found:
    """Projected gradient descent."""
    return in_ball(
        asked,
        attacks.pgd,
        objective=asked.aim(objective),
        steps=steps,
        step_size=asked.step_size(step_size, steps),
        restarts=restarts,
        targets=targets,
        label_source=label_source,
        random_start=random_start,
        keep=keep,
    )


def mim(
    asked: Asked,
    *,
    objective: str = "margin",
    steps: int = 10,
    step_size: str | None = None,
    decay: float = 1.0,
    targets: str | None = None,
    label_source: LabelSource = "true",
    keep: Keep = "best",
) -> Found:
    """Momentum iterative method."""
    return in_ball(
        asked,
        attacks.mim,
        objective=asked.aim(objective),
        steps=steps,
        step_size=asked.step_size(step_size, steps),
        decay=decay,
        targets=targets,
        label_source=label_source,
        keep=keep,
    )


def apgd(
    asked: Asked, *, objective: str = "margin", steps: int = 100, restarts: int = 1, targets: str | None = None
) -> Found:
    """PGD with a step size that adapts to each sample."""
    return in_ball(asked, attacks.apgd, objective=asked.aim(objective), steps=steps, restarts=restarts, targets=targets)


def spsa(
    asked: Asked,
    *,
    objective: str = "margin",
    steps: int = 10,
    evaluations: int = 128,
    delta: float = 0.01,
    learning_rate: float = 0.01,
    targets: str | None = None,
    label_source: LabelSource = "true",
    random_start: bool = False,
    keep: Keep = "best",
) -> Found:
    """Gradients estimated from answers alone."""
    return in_ball(
        asked,
        attacks.spsa,
        objective=asked.aim(objective),
        steps=steps,
        evaluations=evaluations,
        delta=delta,
        learning_rate=learning_rate,
        targets=targets,
        label_source=label_source,
        random_start=random_start,
        keep=keep,
    )


def square(asked: Asked, *, queries: int = 5000) -> Found:
    """Random search over squares of colour."""
    return in_ball(asked, attacks.square, queries=queries)


def carlini(
    asked: Asked,
    *,
    objective: str = "margin-over-all",
    constants: Literal["tracked", "binary"] = "tracked",
    steps: int = 1000,
    search_steps: int = 9,
    learning_rate: float = 0.005,
    initial_c: float = 0.01,
    targets: str | None = None,
    label_source: LabelSource = "true",
) -> Found:
    """The nearest image in the Euclidean norm that Carlini and Wagner's attack finds."""
    return nearest(
        asked,
        attacks.carlini_wagner,
        objective=asked.aim(objective),
        search=constants,
        steps=steps,
        search_steps=search_steps,
        learning_rate=learning_rate,
        initial_c=initial_c,
        targets=targets,
        label_source=label_source,
    )


def fmn(asked: Asked, *, objective: str = "margin-over-all", steps: int = 200, targets: str | None = None) -> Found:
    """The nearest image in the suite's norm: accuracy at every epsilon at once."""
    norm: Literal["linf", "l2"] = "linf" if isinstance(asked.threat, Linf) else "l2"
    return nearest(asked, attacks.fmn, norm=norm, objective=asked.aim(objective), steps=steps, targets=targets)


def noise(asked: Asked, *, std: float = 0.05, tries: int = 1, clip: bool = True) -> Found:
    """Gaussian noise, the worst of so many draws."""
    whole = (asked.subject.model, asked.images, asked.labels)
    ids, seed = asked.sample_ids, asked.seed
    found = attacks.worst_of_noise(*whole, std=std, tries=tries, seed=seed, sample_ids=ids, clip=clip)
    return shown(asked, found.images, found.tries)


def rotation(asked: Asked, *, max_degrees: float = 30.0, tries: int = 1) -> Found:
    """Turns by random angles, the worst of so many."""
    whole = (asked.subject.model, asked.images, asked.labels)
    ids, seed = asked.sample_ids, asked.seed
    found = attacks.worst_of_rotations(*whole, max_degrees=max_degrees, tries=tries, seed=seed, sample_ids=ids)
    return shown(asked, found.images, found.tries)


def autoattack(
    asked: Asked,
    *,
    part: Literal["apgd-ce", "apgd-dlr", "apgd-t", "fab", "fab-t", "square"] = "apgd-ce",
    steps: int = 100,
    queries: int = 5000,
) -> Found:
    """One attack of AutoAttack as pyautoattack runs it, judged as every other attack here is."""
    model = asked.subject.fast
    if not isinstance(model, torch.nn.Module):
        raise TypeError("stages that need gradients are not planned for functions")
    found = attacks.autoattack(
        model,
        asked.images,
        asked.labels,
        threat=asked.threat,
        seed=asked.seed % 2**31,  # it seeds numpy, whose seeds are 32 bits wide
        attacks=(part,),
        steps=steps,
        queries=queries,
        batch_size=len(asked.images),
    )
    return Found(found.images, found.predictions, moved(asked, found.images), None, found.passes)


def transfer(
    asked: Asked,
    *,
    source: str = "",
    objective: str = "paper",
    steps: int = 10,
    step_size: str | None = None,
    decay: float = 1.0,
) -> Found:
    """Images that MIM crafts on another model of the same evaluation, never looking at this one (paper Fig. 4)."""
    other = asked.others[source]
    crafted = attacks.mim(
        other.fast,
        asked.images.to(other.device),
        asked.labels.to(other.device),
        objective=resolve_objective(objective, other),
        threat=asked.threat,
        steps=steps,
        step_size=asked.step_size(step_size, steps),
        decay=decay,
        seed=asked.seed,
        sample_ids=asked.sample_ids.to(other.device),
        keep="last",
    )
    images = crafted.images.to(asked.images.device)
    predictions = judge(asked.subject.model, images)
    return Found(images, predictions, moved(asked, images), crafted.spent, crafted.passes)


KINDS: dict[str, Callable[..., Found]] = {
    "clean": clean,
    "fgsm": fgsm,
    "pgd": pgd,
    "mim": mim,
    "apgd": apgd,
    "spsa": spsa,
    "square": square,
    "carlini": carlini,
    "fmn": fmn,
    "noise": noise,
    "rotation": rotation,
    "autoattack": autoattack,
    "transfer": transfer,
}
WITHOUT_GRADIENTS = frozenset({"clean", "spsa", "square", "noise", "rotation", "transfer"})
