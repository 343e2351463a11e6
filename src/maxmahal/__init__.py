"""maxmahal: robust classification. Train with preset class centers, and evaluate any model by strong attacks.

To use the loss of the paper in your own training:

    head = MMC(max_mahalanobis_centers(num_classes=10, dim=256))
    loss = head(features, labels)
    predictions = head.logits(features).argmax(dim=1)
"""

from importlib import import_module
from typing import TYPE_CHECKING

from maxmahal.version import __version__

# Importing torch takes seconds, and `maxmahal --help` does not need it: each name is imported on first use. Type
# checkers and editors read the plain imports. Tests check that both lists agree.
if TYPE_CHECKING:
    from maxmahal import demo as demo
    from maxmahal import density as density
    from maxmahal import integrations as integrations
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
    _MODULES = (
        *_NAMES,
        *_BASE,
        "attacks",
        "data",
        "demo",
        "density",
        "integrations",
        "records",
        "report",
        "reproduce",
        "uncertainty",
    )
    _HOMES = {name: module for module, names in _NAMES.items() for name in names}

    def __getattr__(name: str) -> object:
        """Import a public name or a module on first use."""
        if name in _HOMES:
            globals()[name] = getattr(import_module(f"maxmahal.{_HOMES[name]}"), name)
            return globals()[name]
        if name in _MODULES:
            return import_module(f"maxmahal.{name}")
        raise AttributeError(f"module 'maxmahal' has no attribute '{name}'")

    def __dir__() -> list[str]:
        """All names, imported or not."""
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
