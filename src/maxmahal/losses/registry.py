"""Every loss by name. A new one is one new file and one line here; one from outside is ``package.module:MyLoss``.

A head takes ``centers``, or ``num_classes`` and ``feature_dim``; its other keyword arguments are its settings.
"""

import inspect

from maxmahal.errors import SettingsError
from maxmahal.losses.angular import ArcFace, CosFace
from maxmahal.losses.center import CenterLoss
from maxmahal.losses.emc import EMC
from maxmahal.losses.gsce import GSCE
from maxmahal.losses.lgm import LGM
from maxmahal.losses.mmc import MMC
from maxmahal.losses.mmlda import MMLDA
from maxmahal.losses.softmax import SCE
from maxmahal.models.head import Head
from maxmahal.settings import find_entry

LOSSES: dict[str, type[Head]] = {
    "sce": SCE,
    "mmc": MMC,
    "mmlda": MMLDA,
    "center": CenterLoss,
    "lgm": LGM,
    "emc": EMC,
    "gsce": GSCE,
    "cosface": CosFace,
    "arcface": ArcFace,
}
"""Heads by the name that settings use."""


def takes_centers(name: str) -> bool:
    """Whether the loss works with preset centers."""
    return "centers" in inspect.signature(find_entry(name, LOSSES)).parameters


def check_own_loss(name: str, loss: object) -> None:
    """Refuse what ``package.module:MyLoss`` stands for unless it is a ``Head``."""
    if not (inspect.isclass(loss) and issubclass(loss, Head)):
        raise SettingsError(f"loss.name = '{name}' must name a subclass of maxmahal.Head; {name} is none.")
