"""maxmahal: classifiers whose features gather around preset class centers, and honest measurement of robustness.

The three lines that swap a loss:

    head = MMC(max_mahalanobis_centers(num_classes=10, dim=256))
    loss = head(features, labels)
    predictions = head.logits(features).argmax(dim=1)
"""

from importlib import import_module
from typing import TYPE_CHECKING

from maxmahal.version import __version__

# torch takes seconds to import, and `maxmahal --help` needs none of it: each name is imported when it is first asked
# for. Type checkers and editors read the plain imports. Tests hold the two lists together, and `_MODULES` to the parts
# that there are.
if TYPE_CHECKING:
    from maxmahal import demo as demo
    from maxmahal import density as density
    from maxmahal import records as records
    from maxmahal import report as report
    from maxmahal import reproduce as reproduce
    from maxmahal import uncertainty as uncertainty
    from maxmahal.centers import hierarchical_centers, max_mahalanobis_centers, random_centers
    from maxmahal.evaluate import evaluate_model, evaluate_models
    from maxmahal.losses import EMC, GSCE, LGM, MMC, MMLDA, SCE, ArcFace, CenterLoss, CosFace
    from maxmahal.models import Classifier, Head
    from maxmahal.train import load_settings, train_model
    from maxmahal.zoo import load
else:
    _NAMES = {
        "centers": ("hierarchical_centers", "max_mahalanobis_centers", "random_centers"),
        "evaluate": ("evaluate_model", "evaluate_models"),
        "losses": ("EMC", "GSCE", "LGM", "MMC", "MMLDA", "SCE", "ArcFace", "CenterLoss", "CosFace"),
        "models": ("Classifier", "Head"),
        "train": ("load_settings", "train_model"),
        "zoo": ("load",),
    }
    _BASE = ("errors", "files", "imports", "random", "settings", "shipped")
    _MODULES = (*_NAMES, *_BASE, "attacks", "data", "demo", "density", "records", "report", "reproduce", "uncertainty")
    _HOMES = {name: module for module, names in _NAMES.items() for name in names}

    def __getattr__(name: str) -> object:
        """A public name, or a part of the package, on first use; from then on it is a plain attribute."""
        if name in _HOMES:
            globals()[name] = getattr(import_module(f"maxmahal.{_HOMES[name]}"), name)
            return globals()[name]
        if name in _MODULES:
            return import_module(f"maxmahal.{name}")
        raise AttributeError(f"module 'maxmahal' has no attribute '{name}'")

    def __dir__() -> list[str]:
        """What is here already and what comes when asked for."""
        return [*{*globals(), *__all__, *_MODULES}]


__all__ = [
    "EMC",
    "GSCE",
    "LGM",
    "MMC",
    "MMLDA",
    "SCE",
    "ArcFace",
    "CenterLoss",
    "Classifier",
    "CosFace",
    "Head",
    "__version__",
    "evaluate_model",
    "evaluate_models",
    "hierarchical_centers",
    "load",
    "load_settings",
    "max_mahalanobis_centers",
    "random_centers",
    "train_model",
]
