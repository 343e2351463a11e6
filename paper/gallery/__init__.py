"""Pictures of feature space: each figure is computed once into a small record and drawn from the record alone."""

from paper.gallery.output import check_format, write_figure
from paper.gallery.page import render_gallery
from paper.gallery.registry import FIGURES, find_figure
from paper.gallery.store import default_folder, make_record, obtain_record, read_record
from paper.gallery.types import Figure, Options, Record

__all__ = [
    "FIGURES",
    "Figure",
    "Options",
    "Record",
    "check_format",
    "default_folder",
    "find_figure",
    "make_record",
    "obtain_record",
    "read_record",
    "render_gallery",
    "write_figure",
]
