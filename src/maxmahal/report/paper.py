"""What the paper prints for a model, to stand beside what was measured."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

_BOUND = "<= "


@dataclass(frozen=True)
class PaperNumber:
    """One cell of the paper's tables."""

    source: str
    """The table and its row, such as "Table 1, MMC-10"."""
    text: str
    """As printed: "36.0", "<= 1"."""
    value: float
    """In percent, or a mean L2 distance for the Carlini-Wagner attacks; of a bound, the bound itself."""
    bound: bool
    """Whether the paper only says that the number is no larger than this."""


def paper_number(table: str, stage_name: str) -> list[PaperNumber]:
    """What each table prints for the rows that a preset's ``table`` names, in order; they need not agree."""
    numbers = []
    for place in table.split(";"):
        name, _, row = place.strip().partition(", ")
        for source in (name, *_tables().get(name, {}).get("also", ())):
            numbers += _cells(source, row, stage_name)
    return numbers


def _cells(table: str, row: str, stage_name: str) -> list[PaperNumber]:
    content = _tables().get(table, {"rows": {}})
    if row not in content["rows"] or stage_name not in content["stages"]:
        return []
    text = content["rows"][row][content["stages"].index(stage_name)]
    return [PaperNumber(f"{table}, {row}", text, float(text.removeprefix(_BOUND)), text.startswith(_BOUND))]


@cache
def _tables() -> dict[str, Any]:
    text = (resources.files("maxmahal") / "report" / "assets" / "paper.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
