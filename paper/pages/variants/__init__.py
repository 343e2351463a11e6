"""The variants that the paper left as future work, and the uncertainty that it claims: studies, rules, pages."""

from pathlib import Path

from maxmahal.uncertainty import read_record
from paper.pages.variants.collecting import collect_study
from paper.pages.variants.figures import draw_figures
from paper.pages.variants.merging import merge_tables, run_name
from paper.pages.variants.page import variants_page
from paper.pages.variants.results import FOLDER, read_results, read_table
from paper.pages.variants.studies import STUDIES
from paper.pages.variants.uncertainty import FIGURE, draw_uncertainty, uncertainty_page

UNCERTAINTY = "uncertainty.json"

__all__ = [
    "FOLDER",
    "STUDIES",
    "UNCERTAINTY",
    "collect_study",
    "merge_tables",
    "read_table",
    "run_name",
    "variant_pages",
]


def variant_pages(results: Path) -> dict[str, str]:
    """Every page and figure by its place under the folder of results; none where nothing was collected."""
    every = read_results(results)
    wanted = {f"figures/{name}": text for name, text in draw_figures(every).items()}
    if page := variants_page(every):
        wanted["variants.md"] = page
    if (results / UNCERTAINTY).exists():
        record = read_record(results / UNCERTAINTY)
        wanted["uncertainty.md"] = uncertainty_page(record)
        wanted[f"figures/{FIGURE}"] = draw_uncertainty(record)
    return wanted
