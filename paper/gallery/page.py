"""paper/results/gallery.md: the figures that have a record, drawn from their records alone."""

from pathlib import Path

from paper.gallery.registry import FIGURES, read_record
from paper.pages.text import render


def gallery_pages(results: Path) -> dict[str, str]:
    """The page and its figures by their places under the folder of results; none without a record."""
    known = {name: record for name in FIGURES if (record := read_record(results / "gallery", name)) is not None}
    if not known:
        return {}
    drawn = {f"figures/{name}.svg": FIGURES[name].draw(record).file() for name, record in known.items()}
    tables = {name: table(record) for name, record in known.items() if (table := FIGURES[name].table) is not None}
    titles = {name: FIGURES[name].title for name in known}
    return {"gallery.md": render("gallery", records=known, titles=titles, tables=tables), **drawn}
