"""Every figure by its name: a new one is a file and an entry here."""

from maxmahal.density import figures as density
from maxmahal.errors import ArgumentError, did_you_mean
from paper.gallery.figures import figure3b, figure5, figure6, training_movie
from paper.gallery.types import Figure

_PATHS = "Two features a model: the way of each attack through feature space, step by step, for MMC and for SCE."

FIGURES: dict[str, Figure] = {
    "figure1": Figure(
        "Samples follow their loss (Fig. 1)",
        "Level sets of SCE and MMC, where descent sends samples, and what becomes of their density.",
        lambda options: density.compute_figure1(options.seed), density.draw_figure1, cheap=True,
    ),
    "figure2": Figure(
        "Away, or together (Fig. 2)",
        "Where lower loss lies under g-SCE, under center loss and under MMC.",
        lambda options: density.compute_figure2(options.seed), density.draw_figure2, cheap=True,
    ),
    "densities": Figure(
        "Sample density: theorems and counts",
        "What Theorems 1 and 2 predict, in the paper's form and exactly, against counted samples.",
        lambda options: density.compute_densities(options.seed, samples=20_000 if options.quick else 200_000),
        density.draw_densities, cheap=True,
    ),
    "figure3b": Figure(
        "Attack paths in feature space, MNIST (Fig. 3b)", _PATHS, figure3b.compute_mnist, figure3b.draw,
        panels=figure3b.panels, legend=figure3b.legend, sheet=figure3b.sheet, frames=figure3b.frames,
        player=figure3b.player, caption=figure3b.caption,
    ),
    "figure3b-digits": Figure(
        "Attack paths in feature space, digits (Fig. 3b)", _PATHS, figure3b.compute, figure3b.draw,
        panels=figure3b.panels, legend=figure3b.legend, sheet=figure3b.sheet, frames=figure3b.frames,
        player=figure3b.player, caption=figure3b.caption,
    ),
    "figure5": Figure(
        "Max-Mahalanobis centers (Fig. 5)",
        "Two, three and four classes: the centers of one length that lie as far apart as any can.",
        figure5.compute, figure5.draw, panels=figure5.panels, columns=3, sheet=figure5.sheet,
        turntable=figure5.turntable, cheap=True,
    ),
    "figure6": Figure(
        "What the adaptive objectives do (Fig. 6)",
        "Where each objective of appendix B.4 pushes a feature, and which one serves which goal best.",
        figure6.compute, figure6.draw, panels=figure6.panels, legend=figure6.legend, sheet=figure6.sheet,
        caption=figure6.caption, cheap=True,
    ),
    "training-movie": Figure(
        "Features while a model learns",
        "Gathering round MMC's centers, spreading under SCE, and collapsing under center loss without cross-entropy.",
        training_movie.compute, training_movie.draw, panels=training_movie.panels, columns=3,
        legend=training_movie.legend, sheet=training_movie.sheet, frames=training_movie.frames,
        player=training_movie.player, caption=training_movie.caption,
    ),
}  # fmt: skip


def find_figure(name: str) -> Figure:
    """The figure of that name; an unknown one is an error that names the nearest."""
    if name not in FIGURES:
        raise ArgumentError(f"There is no figure '{name}'; {did_you_mean(name, FIGURES)}")
    return FIGURES[name]
