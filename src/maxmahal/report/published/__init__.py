"""Published results: tables, claims, figures and model cards, from a folder of summaries and nothing else."""

from maxmahal.report.published.cards import card, index
from maxmahal.report.published.claims import claims
from maxmahal.report.published.models import ZOO
from maxmahal.report.published.pages import claims_page, readme_block, results_page
from maxmahal.report.published.pictures import figures
from maxmahal.report.published.reading import EVALUATIONS, RUNS, read_shelf
from maxmahal.report.published.shelf import Shelf

__all__ = [
    "EVALUATIONS",
    "RUNS",
    "ZOO",
    "Shelf",
    "card",
    "claims",
    "claims_page",
    "figures",
    "index",
    "read_shelf",
    "readme_block",
    "results_page",
]
