"""Records: what each attack did to each sample, and what follows from it. Nothing here needs torch."""

from maxmahal.records.reading import read_evaluations
from maxmahal.records.schema import RecordsError
from maxmahal.records.shards import Shard, merge_records
from maxmahal.records.statistics import Comparison, Rate, clopper_pearson, mcnemar, points_apart
from maxmahal.records.types import Columns, Evaluation, Finding, Picture, Points, Rating, StageRecords, unique_names
from maxmahal.records.verdict import (
    CLEAN,
    SeedSpread,
    StageVerdict,
    Verdict,
    compare,
    give_verdict,
    seed_spreads,
    stands,
    unanswered,
    was_attacked,
)

__all__ = [
    "CLEAN",
    "Columns",
    "Comparison",
    "Evaluation",
    "Finding",
    "Picture",
    "Points",
    "Rate",
    "Rating",
    "RecordsError",
    "SeedSpread",
    "Shard",
    "StageRecords",
    "StageVerdict",
    "Verdict",
    "clopper_pearson",
    "compare",
    "give_verdict",
    "mcnemar",
    "merge_records",
    "points_apart",
    "read_evaluations",
    "seed_spreads",
    "stands",
    "unanswered",
    "unique_names",
    "was_attacked",
]
