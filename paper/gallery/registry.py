"""Every figure by its name, its record on disk, and the page; a new figure is one file and one entry here."""

import json
from pathlib import Path

from maxmahal.files import parse_json, read_text, write_text_atomically
from maxmahal.records.schema import RecordsError
from maxmahal.version import __version__
from paper import ROOT
from paper.gallery.figure import FigureOptions, FigureRecord, GalleryFigure
from paper.gallery.figures import densities, figure3b, figure5, figure6, level_sets
from paper.pages.text import render

FORMAT = "maxmahal-figure-1"
FOLDER = ROOT / "paper" / "results" / "gallery"

FIGURES: dict[str, GalleryFigure] = {
    "figure1": GalleryFigure(
        "Samples follow their loss (Fig. 1)", level_sets.compute_figure1, level_sets.panels, legend=level_sets.LEGEND
    ),
    "figure2": GalleryFigure(
        "Where lower loss is (Fig. 2)",
        level_sets.compute_figure2,
        level_sets.panels,
        legend=level_sets.LEGEND,
        columns=3,
    ),
    "densities": GalleryFigure(
        "Sample density: theorems and counts", densities.compute, densities.panels, legend=densities.LEGEND
    ),
    "figure3b": GalleryFigure(
        "Attack paths in feature space, MNIST (Fig. 3b)",
        figure3b.compute_mnist,
        figure3b.panels,
        legend=figure3b.LEGEND,
        table=figure3b.table,
    ),
    "figure3b-digits": GalleryFigure(
        "Attack paths in feature space, digits (Fig. 3b)",
        figure3b.compute,
        figure3b.panels,
        legend=figure3b.LEGEND,
        table=figure3b.table,
    ),
    "figure5": GalleryFigure(
        "Max-Mahalanobis centers (Fig. 5)", figure5.compute, figure5.panels, table=figure5.table, columns=3
    ),
    "figure6": GalleryFigure(
        "Adaptive objectives (Fig. 6)", figure6.compute, figure6.panels, legend=figure6.LEGEND, table=figure6.table
    ),
}


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
        raise RecordsError(
            f"{path} is not a record of {name} ({error}); `python -m paper.gallery {name}` makes one."
        ) from error
    return record


def make_record(folder: Path, name: str, options: FigureOptions) -> FigureRecord:
    """Compute the record of a figure and keep it."""
    record = FIGURES[name].compute(options)
    kept = {"format": FORMAT, "figure": name, "maxmahal": __version__, "record": record}
    # NaN is not JSON: refuse it here, before a reader meets it.
    text = json.dumps(kept, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    write_text_atomically(record_path(folder, name), text + "\n")
    return record


def gallery_pages(results: Path) -> dict[str, str]:
    """The page and its figures by their places under the folder of results; none without a record."""
    known = {name: record for name in FIGURES if (record := read_record(results / "gallery", name)) is not None}
    if not known:
        return {}
    drawn = {f"figures/{name}.svg": FIGURES[name].draw(record).file() for name, record in known.items()}
    tables = {name: table(record) for name, record in known.items() if (table := FIGURES[name].table) is not None}
    titles = {name: FIGURES[name].title for name in known}
    return {"gallery.md": render("gallery", records=known, titles=titles, tables=tables), **drawn}
