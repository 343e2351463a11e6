"""Sample density in feature space: the paper's theory (Sec. 3), made checkable.

The question. A classifier can be robust near a sample only if it has seen enough other samples near it. How near to
each other do features of one class come to lie, and does the training loss ask for it?

The measure. Features do not fill their space evenly: a loss moves them across its contours, not along them. So the
paper counts between two contours. With ΔN samples whose loss lies in [C, C + ΔC], and Vol(ΔB) the volume of all
features that have such a loss,

    SD = ΔN / Vol(ΔB)   (Eq. 2).

If losses are distributed as p(C), then ΔN = N·p(C)·ΔC. What is left is geometry: how much room do contours leave?

MMC (Theorem 2). Contours are spheres around the preset center, r² = 2C. All N_k samples of a class share them, they
shrink to a point as C goes to 0, and density grows without bound.

g-SCE (Theorem 1). Against one runner-up k̃, the contours are spheres around a point M that is neither class's center,
with r² = B + log(C_e - 1)/(σ_k - σ_k̃). Only the N_{k,k̃} samples with that runner-up share them. If σ_k > σ_k̃, no
feature has a loss below C*, however good; if σ_k < σ_k̃, loss goes to 0 only as r² grows without bound, like |log C|,
and density goes to 0. With equal precisions, as in SCE, contours are planes: the room between two is infinite, and the
loss asks for no density at all (Remark 1).

Where the paper is off, and what is here instead. Its volumes are area times ΔC. A shell's thickness is |dr/dC|·ΔC, so
the exact density is N·p(C)/|dV/dC|; for MMC the power of C is (d-2)/2 where Eq. 9 says (d-1)/2. ``log_exact_density``
and ``log_paper_density`` offer both, and ``run_trial`` lets a count of drawn features decide between them. Theorem 1 is
exact for two classes only; ``runner_up_errors`` measures the two errors that more classes bring. None of this touches
the paper's conclusion: density under MMC still grows as C falls.

Reading order: ``volumes`` (balls, shells, chi-square radii), ``contours`` (level sets), ``theorems`` (both densities),
``counting`` (Eq. 2), ``trial`` (the test), ``runner_up`` (more than two classes), ``heads``, ``measure`` and
``compare`` (trained models), ``planes`` and ``figures`` (pictures in two dimensions).
"""

from maxmahal.density.compare import compare_models, table
from maxmahal.density.contours import (
    CenterSpheres,
    Contours,
    PairEllipsoids,
    PairHyperplanes,
    PairSpheres,
    pair_contours,
)
from maxmahal.density.counting import Count, count_density, log_neighbour_density, of_pair, region_volume, runners_up
from maxmahal.density.heads import head_centers, head_contours
from maxmahal.density.measure import measure_features, measure_model
from maxmahal.density.page import write_density_page
from maxmahal.density.runner_up import RunnerUpErrors, runner_up_errors
from maxmahal.density.theorems import log_exact_density, log_missing_factor, log_paper_density
from maxmahal.density.trial import Outcome, Trial, chi_square, gsce_trial, mmc_trial, run_trial
from maxmahal.density.volumes import log_ball_volume, log_ellipsoid_volume, log_shell_volume, log_sphere_area

__all__ = [
    "CenterSpheres",
    "Contours",
    "Count",
    "Outcome",
    "PairEllipsoids",
    "PairHyperplanes",
    "PairSpheres",
    "RunnerUpErrors",
    "Trial",
    "chi_square",
    "compare_models",
    "count_density",
    "gsce_trial",
    "head_centers",
    "head_contours",
    "log_ball_volume",
    "log_ellipsoid_volume",
    "log_exact_density",
    "log_missing_factor",
    "log_neighbour_density",
    "log_paper_density",
    "log_shell_volume",
    "log_sphere_area",
    "measure_features",
    "measure_model",
    "mmc_trial",
    "of_pair",
    "pair_contours",
    "region_volume",
    "run_trial",
    "runner_up_errors",
    "runners_up",
    "table",
    "write_density_page",
]
