"""Leads of one model over others, column by column: paired tests, and what may be said of all columns together."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from maxmahal.records.statistics import CONFIDENCE, Comparison, Rate, points_apart
from maxmahal.report.wording import p_value, points
from paper.pages.judging import ALPHA, POINT, Verdict, between, ours_at
from paper.pages.measured import Measured
from paper.pages.models import SPSA, TITLES, title_of
from paper.pages.shelf import Shelf
from paper.pages.tables import markdown

State = Literal["ahead", "no lead", "open", "not tested"]
FARTHER = 5.0  # percent of a mean distance: what is less makes no difference to anybody
COUNTED = (
    "A lead in a column is counted on the images that a model gets right before the attack and after it, paired with "
    "the other model's: an attack away from the model's own prediction turns some wrong answers into right ones, and "
    "nobody gains by these, while for images that were right it is an attack on the true label. It has to be of at "
    "least a point, with an exact McNemar p below 0.05 after Holm's correction over the columns of the claim; over "
    "several models, over each of them. SPSA flees the true label, so that where a summary does not say which images "
    "it left right, their counts are compared, by Newcombe's interval and a z-test, unpaired. Mean distances (C&W) "
    f"lead by {FARTHER:g} % and such a test; they are not tested where one of the two models keeps more than a "
    "twentieth of its images, for an attack without a bound that leaves so many has stopped before its end. A lead is "
    "ruled out where the interval of the difference ends below the point (95 % for all columns and models together); "
    "a column that is neither is open, and one whose summaries do not tell the images apart was not tested. All this "
    "is over images: how far another training seed would move a model shows only where several were trained."
)
_WORDS = {"ahead": "a lead", "no lead": "ruled out", "open": "open", "not tested": "not tested"}


@dataclass(frozen=True)
class Gap:
    """How far one model is ahead of another under one attack."""

    size: float
    """In points, or in percent of the other's mean distance."""
    p_value: float
    middle: float
    """Of the interval, which for few images is not quite the size."""
    error: float
    least: float
    """The smallest size that is a lead."""
    words: str

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Which true differences are compatible with it."""
        reach = NormalDist().inv_cdf((1 + confidence) / 2) * self.error
        return self.middle - reach, self.middle + reach

    @property
    def told(self) -> str:
        """A difference in points with its interval over images."""
        return between(self.size, self.interval())

    @property
    def leaves_out_zero(self) -> bool:
        """Whether the interval tells the two from each other."""
        low, high = self.interval()
        return low > 0 or high < 0


@dataclass(frozen=True)
class Lead:
    """One model against others in one column."""

    title: str
    closest: str
    """The other model that it is least ahead of."""
    gap: Gap | None
    """To that one; None where it was not tested."""
    chance: float | None
    """The largest p over the others, corrected for the number of columns."""
    state: State

    @property
    def ahead(self) -> bool:
        """Whether it is better than each of them, beyond chance and by something that matters."""
        return self.state == "ahead"


def of_images(pair: Comparison) -> Gap:
    """By counts of images; the interval is Wald's with half an image added to each cell (Agresti and Min)."""
    both, apart = pair.first_only + pair.second_only + 1, pair.first_only - pair.second_only
    total = pair.total + 2
    error = math.sqrt(max(both - apart**2 / total, 0.0)) / total
    told = f"{points(pair.difference)} points ({pair.first_only} to {pair.second_only} of {pair.total:,} images)"
    return Gap(100 * pair.difference, pair.p_value, 100 * apart / total, 100 * error, POINT, told)


def of_counts(ours: Rate, theirs: Rate) -> Gap:
    """By shares of as many images without pairing them: Newcombe's interval, and the pooled z-test of two shares."""
    size, low, high = points_apart(ours, theirs)
    pooled = (ours.count + theirs.count) / (ours.total + theirs.total)
    error = 100 * math.sqrt(pooled * (1 - pooled) * (1 / ours.total + 1 / theirs.total))
    chance = 2 * NormalDist().cdf(-abs(size) / error) if error else 1.0
    reach = (high - low) / 2 / NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    told = f"{points(size / 100)} points (by counts of {ours.total:,} images, not paired)"
    return Gap(size, chance, (low + high) / 2, reach, POINT, told)


def of_distances(ours: Measured, theirs: Measured) -> Gap | None:
    """By mean distances and their errors; None where the attack did not turn many images, which no mean has."""
    if any(math.isnan(each.value) or each.unturned for each in (ours, theirs)):
        return None
    if ours.error is None or theirs.error is None or not theirs.value:
        return None
    size, error = 100 * (ours.value / theirs.value - 1), 100 * math.hypot(ours.error, theirs.error) / theirs.value
    chance = 2 * NormalDist().cdf(-abs(size) / error) if error else float(size == 0)
    return Gap(size, chance, size, error, FARTHER, f"{size:+.0f} % farther")


def leads(shelf: Shelf, model: str, others: Sequence[str], stages: Sequence[str]) -> list[Lead]:
    """In each column that the model and at least one of the others have a number for; ``Needs`` names the rest."""
    return judge(columns(shelf, model, others, stages))


def columns(
    shelf: Shelf, model: str, others: Sequence[str], stages: Sequence[str], kind: str = ""
) -> dict[str, dict[str, Gap | None]]:
    """For each column the gap to each other model, by their titles; None where there is nothing to test."""
    found: dict[str, dict[str, Gap | None]] = {}
    for stage in stages:
        ours = ours_at(shelf, model, stage)
        theirs = {other: each for other in others if (each := ours_at(shelf, other, stage)) is not None}
        if ours is not None and theirs:
            found[f"{TITLES[stage]}{kind}"] = {
                title_of(shelf, other): _gap(shelf, stage, (model, ours), (other, each))
                for other, each in theirs.items()
            }
    return found


def judge(found: Mapping[str, Mapping[str, Gap | None]]) -> list[Lead]:
    """Every column of one claim, and every model in it: all of them together share the chance of an error."""
    tested = {name: [gap for gap in gaps.values() if gap is not None] for name, gaps in found.items()}
    whole = {name: gaps for name, gaps in tested.items() if len(gaps) == len(found[name])}
    chances = holm({name: max(gap.p_value for gap in gaps) for name, gaps in whole.items()})
    confidence = 1 - ALPHA / max(sum(map(len, found.values())), 1)
    judged = []
    for name, gaps in found.items():
        chance = chances.get(name)
        state: State = "open"
        if any(gap.interval(confidence)[1] < gap.least for gap in tested[name]):
            state = "no lead"
        elif chance is None:
            state = "not tested"
        elif chance < ALPHA and all(gap.size >= gap.least for gap in tested[name]):
            state = "ahead"
        closest = min(gaps, key=lambda other: math.inf if (gap := gaps[other]) is None else gap.size)
        judged.append(Lead(name, closest, gaps[closest], chance, state))
    return judged


def holm(chances: Mapping[str, float]) -> dict[str, float]:
    """P values of several tests, corrected so that the chance of any false one stays what it is for one."""
    corrected: dict[str, float] = {}
    largest = 0.0
    for place, (name, chance) in enumerate(sorted(chances.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, (len(chances) - place) * chance))
        corrected[name] = largest
    return corrected


def state_of(found: Sequence[Lead]) -> State:
    """Of all columns: ahead in every one, a lead ruled out in any, or neither."""
    seen = {lead.state for lead in found}
    if seen == {"ahead"}:
        return "ahead"
    return "no lead" if "no lead" in seen else "not tested" if "not tested" in seen else "open"


def over_kinds(kinds: Sequence[Sequence[Lead]]) -> Verdict:
    """Of several kinds of attack or training: ahead in all columns of each, of one, ruled out in each, or neither."""
    states = [state_of(found) for found in kinds if found]
    if "ahead" in states:
        return "holds" if set(states) == {"ahead"} else "holds in part"
    return "does not hold" if set(states) == {"no lead"} else "undecided"


def counted(found: Sequence[Lead]) -> str:
    """ "3 of 8 columns (ruled out in 4, open in 1)"."""
    others: tuple[State, ...] = ("no lead", "open", "not tested")
    rest = [f"{_WORDS[state]} in {_count(found, state)}" for state in others if _count(found, state)]
    return f"{_count(found, 'ahead')} of {len(found)} columns" + (f" ({', '.join(rest)})" if rest else "")


def leads_table(found: Sequence[Lead]) -> str:
    """Each column with the model that came closest."""
    body = [
        [
            lead.title,
            lead.closest,
            "not tested" if lead.gap is None else lead.gap.words,
            "–" if lead.chance is None else p_value(lead.chance),
            _WORDS[lead.state],
        ]
        for lead in found
    ]
    return markdown(["column", "closest other", "ahead of it by", "p after Holm", "lead"], body, 2)


def _count(found: Sequence[Lead], state: State) -> int:
    return sum(lead.state == state for lead in found)


def _gap(shelf: Shelf, stage: str, ours: tuple[str, Measured], theirs: tuple[str, Measured]) -> Gap | None:
    if ours[1].rate is None or theirs[1].rate is None:
        return of_distances(ours[1], theirs[1])
    pair = shelf.stage_pair(ours[0], theirs[0], stage)
    if pair is not None:
        return of_images(pair)
    counts = shelf.stage_rates(ours[0], theirs[0], stage) if stage in SPSA else None
    return None if counts is None else of_counts(*counts)
