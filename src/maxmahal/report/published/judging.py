"""What a rule hands back, and the small steps that rules are made of."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from maxmahal.evaluate.statistics import Comparison
from maxmahal.evaluate.summary import Summary, pair_up
from maxmahal.report.published.models import TITLES, title_of
from maxmahal.report.published.shelf import STRONG, Measured, Shelf, ours_text, paper_text
from maxmahal.report.published.tables import markdown
from maxmahal.report.wording import p_value, points

Verdict = Literal["holds", "holds in part", "does not hold", "not measured"]
ALPHA = 0.05  # of the paired test
POINT = 1.0  # percentage points: what is less makes no difference to anybody who would use the model


@dataclass(frozen=True)
class Judgement:
    """A verdict, why, and the numbers it was made from."""

    verdict: Verdict
    reason: str
    evidence: str
    """Markdown."""


@dataclass(frozen=True)
class Lead:
    """One model against others in one column."""

    stage: str
    ours: float
    best_other: float

    @property
    def ahead(self) -> bool:
        """Whether it is strictly better than each of them."""
        return self.ours > self.best_other


def ours_at(shelf: Shelf, model: str, stage: str) -> Measured | None:
    """A stage of the paper's protocol, clean images among them."""
    return shelf.clean(model) if stage == "clean" else shelf.stage(model, stage)


def evidence(shelf: Shelf, models: Sequence[str], stages: Sequence[str], *, strong: bool = True) -> str:
    """A column a model and a row an attack, the paper's number before ours; worst cases below."""
    header = ["paper / ours", *(title_of(shelf, model) for model in models)]
    body = [[TITLES[stage], *(_both(shelf, model, stage) for model in models)] for stage in stages]
    if strong:
        body += [[suite, *(ours_text(shelf.robust(model, suite)) for model in models)] for suite in STRONG]
    return markdown(header, body)


def _both(shelf: Shelf, model: str, stage: str) -> str:
    return f"{paper_text(shelf.paper(model, stage)) or '–'} / {ours_text(ours_at(shelf, model, stage))}"


def leads(shelf: Shelf, model: str, others: Sequence[str], stages: Sequence[str]) -> list[Lead]:
    """In each column that the model and at least one of the others have a number for; ``Needs`` names the rest."""
    found = []
    for stage in stages:
        ours = ours_at(shelf, model, stage)
        theirs = [_held(each) for other in others if (each := ours_at(shelf, other, stage)) is not None]
        if ours is not None and theirs:
            found.append(Lead(stage, _held(ours), max(theirs)))
    return found


def _held(measured: Measured) -> float:
    """What a model kept: an attack that broke nobody, whose mean distance is NaN, left it the most there is."""
    return math.inf if math.isnan(measured.value) else measured.value


def strong_pair(shelf: Shelf, first: str, second: str) -> tuple[Summary, Summary] | None:
    """Two models on the same images under the first of the strong suites that saw both."""
    return next((pair for suite in STRONG if (pair := shelf.pair(first, second, suite)) is not None), None)


def standing(comparison: Comparison, least: float = 0.0) -> Literal["ahead", "tied", "behind"]:
    """Where the first model stands: a difference counts if the paired test sees it and it is of some size."""
    if comparison.p_value >= ALPHA or abs(100 * comparison.difference) < least:
        return "tied"
    return "ahead" if comparison.difference > 0 else "behind"


def strong_standing(shelf: Shelf, model: str, others: Sequence[str]) -> Literal["ahead", "tied", "behind"] | None:
    """Of a model against others at worst: ahead of all that were measured, behind one, or neither."""
    pairs = [pair for other in others if (pair := strong_pair(shelf, model, other)) is not None]
    if not pairs:
        return None
    seen = {standing(pair_up(*pair), POINT) for pair in pairs}
    return "behind" if "behind" in seen else "tied" if "tied" in seen else "ahead"


def said(comparison: Comparison) -> str:
    """A paired comparison in a table's cell."""
    chance = p_value(comparison.p_value)
    return (
        f"{points(comparison.difference)} points, p {chance if chance.startswith('<') else f'= {chance}'} "
        f"({comparison.first_only} to {comparison.second_only} of {comparison.total:,} images)"
    )


def counted(found: Sequence[Lead]) -> str:
    """ "3 of 8 columns"."""
    return f"{sum(lead.ahead for lead in found)} of {len(found)} columns"


def share(checks: Sequence[bool]) -> Verdict:
    """Of several checks: all, some or none of them passed."""
    return "holds" if all(checks) else "holds in part" if any(checks) else "does not hold"
