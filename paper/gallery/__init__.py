"""The paper's figures of feature space: each is computed once into a small record and drawn from the record alone."""

from paper.gallery.figure import FigureOptions, FigureRecord, GalleryFigure
from paper.gallery.page import check_format, render_gallery, write_figure
from paper.gallery.registry import FIGURES, default_folder, find_figure, make_record, obtain_record, read_record

__all__ = [
    "FIGURES",
    "FigureOptions",
    "FigureRecord",
    "GalleryFigure",
    "check_format",
    "default_folder",
    "find_figure",
    "make_record",
    "obtain_record",
    "read_record",
    "render_gallery",
    "write_figure",
]
