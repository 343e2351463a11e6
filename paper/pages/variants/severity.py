"""What a study with superclasses keeps of a run besides accuracies: how far mistakes go, and where the centers lie."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from maxmahal.centers import ancestor_heights, tree_from_superclasses
from maxmahal.evaluate.severity import measure_severity
from maxmahal.records.types import Evaluation
from maxmahal.settings import from_table
from maxmahal.train import Settings, preset_centers
from paper.pages.variants.spec import Study

_DIGITS = 3
_CHOSEN_BY = ("validation_pgd10", "validation_accuracy")


def mistakes_table(study: Study, evaluation: Evaluation) -> dict[str, Any]:
    """What the records of a run tell, for JSON; nothing where the study has no superclasses."""
    if not study.superclasses:
        return {}
    found = measure_severity(evaluation, study.superclasses)
    return {"mistakes": {"clean": list(found.clean.counts), "worst": list(found.attacked.counts)}}


def training_table(study: Study, run: Mapping[str, Any]) -> dict[str, Any]:
    """What the folder of a run tells, for JSON; nothing where the study has no superclasses."""
    if not study.superclasses:
        return {}
    return {
        "validation": validation_score(run["epochs"]),
        "centers": _geometry(from_table(Settings, dict(run["settings"])), study.superclasses),
    }


def validation_score(epochs: Sequence[Mapping[str, Any]]) -> float | None:
    """On held-out images after the last epoch, under PGD-10 where training is adversarial; None where none are."""
    last = epochs[-1] if epochs else {}
    return next((last[name] for name in _CHOSEN_BY if name in last), None)


def _geometry(settings: Settings, superclasses: tuple[int, ...]) -> dict[str, float]:
    """Where training starts; elastic centers move later."""
    centers = preset_centers(settings, len(superclasses), superclasses).double()
    lengths = centers.norm(dim=1)
    apart = torch.cdist(centers, centers, compute_mode="donot_use_mm_for_euclid_dist")
    heights = ancestor_heights(tree_from_superclasses(superclasses))
    told = {
        "shortest": lengths.min(),
        "longest": lengths.max(),
        "nearest": apart[heights > 0].min(),
        "across": apart[heights > 1].min(),
    }
    return {name: round(float(value), _DIGITS) for name, value in told.items()}
