"""The training methods by name. A new one is one new file and one line here."""

from collections.abc import Callable

from maxmahal.train.methods.adversarial import AdversarialPairing, AdversarialTraining
from maxmahal.train.methods.base import Adversary, Batch, TrainingMethod
from maxmahal.train.methods.trades import Trades

METHODS: dict[str, Callable[..., TrainingMethod]] = {
    "standard": TrainingMethod,
    "adversarial": AdversarialTraining,
    "trades": Trades,
    "pairing": AdversarialPairing,
}
"""Training methods by the name that settings use."""

__all__ = [
    "METHODS",
    "AdversarialPairing",
    "AdversarialTraining",
    "Adversary",
    "Batch",
    "Trades",
    "TrainingMethod",
]
