"""Every figure by its name, and its record on disk; a new figure is one file and one entry here."""

import json
import os
from pathlib import Path

from maxmahal.errors import ArgumentError, MaxmahalError, did_you_mean
from maxmahal.files import parse_json, read_text, user_path, write_text_atomically
from maxmahal.version import __version__
from paper.gallery.figure import FigureOptions, FigureRecord, GalleryFigure
from paper.gallery.figures import densities, figure3b, figure5, figure6, level_sets, training_movie

FORMAT = "maxmahal-figure-1"
FOLDER = Path("paper/results/gallery")  # the published records, in a checkout
_PATHS = "Two features per model: the path of each attack through feature space, step by step, for MMC and for SCE."

FIGURES: dict[str, GalleryFigure] = {
    "figure1": GalleryFigure(
        "Samples follow their loss (Fig. 1)",
        "Level sets of SCE and MMC, how samples move under descent, and how their density changes.",
        level_sets.compute_figure1, level_sets.panels, legend=level_sets.legend, caption=level_sets.caption, cheap=True,
    ),
    "figure2": GalleryFigure(
        "Where lower loss is (Fig. 2)",
        "Level sets and descent under g-SCE, under center loss and under MMC.",
        level_sets.compute_figure2, level_sets.panels, columns=3, legend=level_sets.legend, caption=level_sets.caption,
        cheap=True,
    ),
    "densities": GalleryFigure(
        "Sample density: theorems and counts",
        "What Theorems 1 and 2 predict, in the paper's form and exactly, against counted samples.",
        densities.compute, densities.panels, legend=densities.legend, cheap=True,
    ),
    "figure3b": GalleryFigure(
        "Attack paths in feature space, MNIST (Fig. 3b)", _PATHS, figure3b.compute_mnist,
        figure3b.panels, legend=figure3b.legend, table=figure3b.table, frames=figure3b.frames,
        player=figure3b.player, caption=figure3b.caption,
    ),
    "figure3b-digits": GalleryFigure(
        "Attack paths in feature space, digits (Fig. 3b)", _PATHS, figure3b.compute,
        figure3b.panels, legend=figure3b.legend, table=figure3b.table, frames=figure3b.frames,
        player=figure3b.player, caption=figure3b.caption,
    ),
    "figure5": GalleryFigure(
        "Max-Mahalanobis centers (Fig. 5)",
        "Two, three and four classes: centers of one length with the largest possible distances.",
        figure5.compute, figure5.panels, columns=3, table=figure5.table, turntable=figure5.turntable, cheap=True,
    ),
    "figure6": GalleryFigure(
        "Adaptive objectives (Fig. 6)",
        "The direction of each objective of appendix B.4 in feature space, and the best one for each goal.",
        figure6.compute, figure6.panels, legend=figure6.legend, table=figure6.table, caption=figure6.caption,
        cheap=True,
    ),
    "training-movie": GalleryFigure(
        "Features during training",
        "Features cluster at MMC's centers, spread under SCE, and collapse under center loss without cross-entropy.",
        training_movie.compute, training_movie.panels, columns=3, legend=training_movie.legend,
        table=training_movie.table, frames=training_movie.frames, player=training_movie.player,
        caption=training_movie.caption,
    ),
}  # fmt: skip


def find_figure(name: str) -> GalleryFigure:
    """The figure of that name; an unknown one is an error that names the nearest."""
    if name not in FIGURES:
        raise ArgumentError(f"There is no figure '{name}'; {did_you_mean(name, FIGURES)}")
    return FIGURES[name]


class FigureRecordError(MaxmahalError, ValueError):
    """A figure's record cannot be read."""


def default_folder() -> Path:
    """The records of a checkout in the current folder, else those of the user's cache."""
    if FOLDER.is_dir():
        return FOLDER
    return user_path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "maxmahal" / "gallery"


def record_path(folder: Path, name: str) -> Path:
    """The path of a figure's record."""
    return folder / f"{name}.json"


def read_record(folder: Path, name: str) -> FigureRecord | None:
    """The record of a figure, or None if there is none."""
    path = record_path(folder, name)
    if not path.exists():
        return None
    try:
        kept = parse_json(read_text(path))
        if kept["format"] != FORMAT or kept["figure"] != name:
            raise ValueError(f"it says {kept['format']}, {kept['figure']}")
        record: FigureRecord = kept["record"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FigureRecordError(
            f"{path} is not a record of {name} ({error}); `python -m paper.gallery figure {name} --fresh` makes one."
        ) from error
    return record


def make_record(folder: Path, name: str, options: FigureOptions) -> FigureRecord:
    """Compute the record of a figure and keep it."""
    record = find_figure(name).compute(options)
    kept = {"format": FORMAT, "figure": name, "maxmahal": __version__, "record": record}
    # NaN is not JSON: refuse it here, before a reader meets it.
    text = json.dumps(kept, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    write_text_atomically(record_path(folder, name), text + "\n")
    return record


def obtain_record(folder: Path, name: str, options: FigureOptions, *, fresh: bool = False) -> FigureRecord:
    """The record on disk, computed first if it is missing or ``fresh`` is set."""
    find_figure(name)  # an unknown name is refused before anything is read or computed
    kept = None if fresh else read_record(folder, name)
    return make_record(folder, name, options) if kept is None else kept
