"""Summaries: what tables, claims and paired tests need of records and run folders, small enough for version control."""

from paper.summaries.evaluations import file_name, read_summary, summarise, write_summary
from paper.summaries.runs import BEST, HALF, RunSummary, half_checkpoint, holds_training, read_run, summarise_run
from paper.summaries.types import StageSummary, Summary, pair_clean, pair_near, pair_stage, pair_up

__all__ = [
    "BEST",
    "HALF",
    "RunSummary",
    "StageSummary",
    "Summary",
    "file_name",
    "half_checkpoint",
    "holds_training",
    "pair_clean",
    "pair_near",
    "pair_stage",
    "pair_up",
    "read_run",
    "read_summary",
    "summarise",
    "summarise_run",
    "write_summary",
]
