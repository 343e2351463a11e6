"""Sample density in feature space: the paper's theory (Sec. 3), and its measurement on trained models.

A classifier can be robust near a sample only if its training data has enough samples near it. The paper counts samples
between two contours of the loss. With ΔN samples whose loss is in [C, C + ΔC], and Vol(ΔB) the volume of all features
with such a loss,

    SD = ΔN / Vol(ΔB)   (Eq. 2).

If losses have the density p(C), then ΔN = N·p(C)·ΔC, and the rest is geometry.

MMC (Theorem 2). Contours are spheres around the preset center, r² = 2C. All N_k samples of a class share them. They
shrink to a point as C goes to 0, so the density grows without bound.

g-SCE (Theorem 1). Against one runner-up k̃, the contours are spheres around a point M that is neither class's center,
with r² = B + log(C_e - 1)/(σ_k - σ_k̃). Only the N_{k,k̃} samples with that runner-up share them. If σ_k > σ_k̃, no
feature has a loss below C*; if σ_k < σ_k̃, loss goes to 0 only as r² grows without bound, like |log C|, and the density
goes to 0. With equal precisions, as in SCE, contours are planes and the volume between two is infinite (Remark 1).

A correction. The paper's volumes are area times ΔC. A shell's thickness is |dr/dC|·ΔC, so the exact density is
N·p(C)/|dV/dC|; for MMC the power of C is (d-2)/2, where Eq. 9 says (d-1)/2. Both forms are here; counts of random
features agree with the exact one. Theorem 1 is exact for two classes only: with more, k̃ is the runner-up in only a part
of the shell, and log-sum-exp is larger than the maximum. The paper's conclusion remains: density under MMC still grows
as C falls.

Reading order: ``volumes`` (balls and shells), ``contours`` (level sets), ``theorems`` (both densities), ``measure`` and
``compare`` (trained models).
"""

from maxmahal.density.compare import compare_models, render_density_page, table, write_density_page
from maxmahal.density.contours import (
    CenterSpheres,
    Contours,
    PairHyperplanes,
    PairSpheres,
    head_centers,
    head_contours,
    pair_contours,
)
from maxmahal.density.measure import DensityRecord, log_neighbour_density, measure_features, measure_model, runners_up
from maxmahal.density.theorems import log_exact_density, log_paper_density
from maxmahal.density.volumes import log_ball_volume, log_shell_volume, log_sphere_area

__all__ = [
    "CenterSpheres",
    "Contours",
    "DensityRecord",
    "PairHyperplanes",
    "PairSpheres",
    "compare_models",
    "head_centers",
    "head_contours",
    "log_ball_volume",
    "log_exact_density",
    "log_neighbour_density",
    "log_paper_density",
    "log_shell_volume",
    "log_sphere_area",
    "measure_features",
    "measure_model",
    "pair_contours",
    "render_density_page",
    "runners_up",
    "table",
    "write_density_page",
]
