"""maxmahal: robust classification. Train with preset class centers, and evaluate any model by strong attacks.

To use the loss of the paper in your own training:

    head = MMC(max_mahalanobis_centers(num_classes=10, dim=256))
    loss = head(features, labels)
    predictions = head.logits(features).argmax(dim=1)

To attack a model, and to measure how robust it is:

    found = pgd(model, images, labels, "8/255")
    print(evaluate_model(model, loader, epsilon="8/255").verdict.sentence)
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
    from maxmahal.attacks import (
        L2,
        Linf,
        Result,
        apgd,
        autoattack,
        bind,
        carlini_wagner,
        craft,
        cross_entropy,
        fgsm,
        fmn,
        margin,
        mim,
        own_loss,
        pgd,
        prepare,
        spsa,
        square,
    )
    from maxmahal.centers import hierarchical_centers, max_mahalanobis_centers, random_centers
    from maxmahal.data import ImageData, load_dataset
    from maxmahal.evaluate import evaluate_model, evaluate_models
    from maxmahal.losses import EMC, GSCE, LGM, MMC, MMLDA, SCE, ArcFace, CenterLoss, CosFace
    from maxmahal.models import Classifier, Head
    from maxmahal.train import load_settings, train_model
    from maxmahal.zoo import load
else:
    _HOMES = ("data", "models", "centers", "losses", "attacks", "train", "evaluate")  # each imports those before it
    _BASE = ("errors", "files", "imports", "random", "settings", "shipped")
    _OTHERS = ("demo", "density", "integrations", "records", "report", "reproduce", "uncertainty", "zoo")
    _MODULES = (*_HOMES, *_BASE, *_OTHERS)

    def __getattr__(name: str) -> object:
        """Import a public name or a module on first use."""
        if name == "load":
            return import_module("maxmahal.zoo").load
        if name in __all__:
            homes = (import_module(f"maxmahal.{each}") for each in _HOMES)
            globals()[name] = getattr(next(home for home in homes if name in home.__all__), name)
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
    "L2",
    "LGM",
    "MMC",
    "MMLDA",
    "SCE",
    "ArcFace",
    "CenterLoss",
    "Classifier",
    "CosFace",
    "Head",
    "ImageData",
    "Linf",
    "Result",
    "__version__",
    "apgd",
    "autoattack",
    "bind",
    "carlini_wagner",
    "craft",
    "cross_entropy",
    "evaluate_model",
    "evaluate_models",
    "fgsm",
    "fmn",
    "hierarchical_centers",
    "load",
    "load_dataset",
    "load_settings",
    "margin",
    "max_mahalanobis_centers",
    "mim",
    "own_loss",
    "pgd",
    "prepare",
    "random_centers",
    "spsa",
    "square",
    "train_model",
]
