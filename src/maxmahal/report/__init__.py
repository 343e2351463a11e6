"""Reports made from records only: a page, tables, figures."""

from collections.abc import Sequence
from pathlib import Path

from maxmahal.records.types import Evaluation
from maxmahal.report.page import write_page
from maxmahal.report.tables import results_tables, to_csv, to_latex, to_markdown

__all__ = ["results_tables", "to_csv", "to_latex", "to_markdown", "write_figures", "write_page"]


def write_figures(evaluations: Sequence[Evaluation], folder: Path, formats: Sequence[str]) -> list[Path]:
    """Every figure that the records have data for, in every format: ``folder/NAME.FORMAT``."""
    from maxmahal.report import figures  # matplotlib takes long to import, and only figures need it

    return figures.write_figures(evaluations, folder, formats)
