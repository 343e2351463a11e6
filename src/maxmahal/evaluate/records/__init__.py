"""Records: what each attack did to each sample, in a file that survives a kill at any moment."""

from maxmahal.evaluate.records.reading import read_evaluations
from maxmahal.evaluate.records.schema import RecordsError
from maxmahal.evaluate.records.types import Columns, Evaluation, Finding, Picture, Points, Rating, StageRecords

__all__ = [
    "Columns",
    "Evaluation",
    "Finding",
    "Picture",
    "Points",
    "Rating",
    "RecordsError",
    "StageRecords",
    "read_evaluations",
]
