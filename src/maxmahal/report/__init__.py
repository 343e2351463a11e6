"""Reports made from records and nothing else: a page, tables, figures."""

from maxmahal.report.figures import write_figures
from maxmahal.report.page import write_page
from maxmahal.report.tables import results_tables, to_csv, to_latex, to_markdown

__all__ = [
    "results_tables",
    "to_csv",
    "to_latex",
    "to_markdown",
    "write_figures",
    "write_page",
]
