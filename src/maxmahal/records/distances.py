"""The results of minimum-norm attacks: how far adversarial images are."""

import numpy as np

from maxmahal.records.types import StageRecords


def is_minimum_norm(stage: StageRecords) -> bool:
    """Whether a stage looked for the nearest adversarial image: it has distances, and no ball around the clean one."""
    return not stage.threat and bool(np.isfinite(stage.columns.distortion).any())


def mean_distortion(stage: StageRecords) -> float | None:
    """The mean distance of the adversarial images of samples that were correct before."""
    columns = stage.columns
    found = columns.distortion[columns.broken & columns.right_before & np.isfinite(columns.distortion)]
    return float(found.mean()) if len(found) else None
