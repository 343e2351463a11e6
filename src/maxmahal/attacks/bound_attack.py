"""An attack with its model and settings filled in, called as those of torchattacks are: ``attack(images, labels)``.

attack = bind(pgd, model, "8/255", steps=10)
adversarial = attack(images, labels)
attack.last.accuracy
"""

import inspect
from collections.abc import Callable

from jaxtyping import Int
from torch import Tensor

from maxmahal.attacks.checks import name_of
from maxmahal.attacks.oracle import Model
from maxmahal.attacks.result import Result
from maxmahal.attacks.threats import Images, Threat
from maxmahal.errors import ArgumentError, did_you_mean


class BoundAttack:
    """A function from images and labels to adversarial images; made by ``bind``."""

    def __init__(self, attack: Callable[..., Result], model: Model, settings: dict[str, object]) -> None:
        self._attack, self._model, self._settings = attack, model, settings
        self._last: Result | None = None

    def __call__(
        self, images: Images, labels: Int[Tensor, " n"], sample_ids: Int[Tensor, " n"] | None = None
    ) -> Images:
        """Adversarial images; what else was found is in ``last``."""
        return self.run(images, labels, sample_ids).images

    def run(self, images: Images, labels: Int[Tensor, " n"], sample_ids: Int[Tensor, " n"] | None = None) -> Result:
        """The whole result: images, predictions, successes and costs."""
        found = self._attack(self._model, images, labels, sample_ids=sample_ids, **self._settings)
        if not isinstance(found, Result):
            raise ArgumentError(f"{name_of(self._attack)} must return a Result; got a {type(found).__name__}.")
        self._last = found
        return found

    @property
    def last(self) -> Result:
        """The result of the latest call."""
        if self._last is None:
            raise ArgumentError("last is the result of the latest call, and there was none; call the attack first.")
        return self._last


def bind(
    attack: Callable[..., Result], model: Model, threat: Threat | str | float | None = None, **settings: object
) -> BoundAttack:
    """``attack`` on ``model`` with these of its keyword arguments, all but ``sample_ids``; checks names at once."""
    try:
        known = dict(inspect.signature(attack).parameters)
    except ValueError:  # a built-in that does not tell
        known = {}
    if [*known][:3] != ["model", "images", "labels"] or known.pop("sample_ids", None) is None:
        raise ArgumentError(
            f"attack must be a function of model, images and labels with its settings by name, such as pgd; "
            f"got {name_of(attack)}."
        )
    open_ended = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = {name: known[name] for name in [*known][3:] if known[name].kind not in open_ended}
    if threat is not None:
        settings["threat"] = threat
    for name in settings:
        if name == "sample_ids":
            raise ArgumentError("sample_ids belong to the images of one call; pass them to the bound attack.")
        if name not in named:
            raise ArgumentError(f"{name_of(attack)} has no setting '{name}'; {did_you_mean(name, named)}")
    missing = [name for name, each in named.items() if each.default is each.empty and name not in settings]
    if missing:
        raise ArgumentError(f"{name_of(attack)} also needs {', '.join(missing)}.")
    return BoundAttack(attack, model, settings)
