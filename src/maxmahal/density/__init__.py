"""Sample density in feature space (paper Sec. 3), measured on trained models: SD = ΔN / Vol(ΔB)   (Eq. 2),

for the ΔN samples whose loss is in [C, C + ΔC], and Vol(ΔB) the volume of all features with such a loss. Reading order:
``contours`` (level sets and volumes), ``measure`` and ``compare`` (trained models).
"""

from maxmahal.density.compare import compare_models, render_density_page, table, write_density_page
from maxmahal.density.contours import (
    CenterSpheres,
    Contours,
    PairSpheres,
    head_centers,
    head_contours,
    log_ball_volume,
    log_shell_volume,
    pair_contours,
)
from maxmahal.density.measure import DensityRecord, log_neighbour_density, measure_features, measure_model, runners_up

__all__ = [
    "CenterSpheres",
    "Contours",
    "DensityRecord",
    "PairSpheres",
    "compare_models",
    "head_centers",
    "head_contours",
    "log_ball_volume",
    "log_neighbour_density",
    "log_shell_volume",
    "measure_features",
    "measure_model",
    "pair_contours",
    "render_density_page",
    "runners_up",
    "table",
    "write_density_page",
]
