"""maxmahal: classifiers whose features gather around preset class centers, and honest measurement of robustness.

The three lines that swap a loss:

    head = MMC(max_mahalanobis_centers(num_classes=10, dim=256))
    loss = head(features, labels)
    predictions = head.logits(features).argmax(dim=1)
"""

from maxmahal.centers import hierarchical_centers, max_mahalanobis_centers, random_centers
from maxmahal.evaluate import evaluate_model, evaluate_models
from maxmahal.losses import EMC, GSCE, LGM, MMC, MMLDA, SCE, ArcFace, CenterLoss, CosFace
from maxmahal.models import Classifier, Head
from maxmahal.train import load_settings, train_model
from maxmahal.version import __version__
from maxmahal.zoo import load

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
