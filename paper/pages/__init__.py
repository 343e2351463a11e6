"""Published results: tables, claims, figures and model cards, from a folder of summaries and nothing else."""

from paper.pages.cards import card, index
from paper.pages.claims import claims
from paper.pages.models import ZOO
from paper.pages.pages import claims_page, readme_block, results_page
from paper.pages.pictures import figures
from paper.pages.reading import EVALUATIONS, RUNS, read_shelf
from paper.pages.shelf import Shelf

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
