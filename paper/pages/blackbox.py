"""The verdict on SPSA with larger batches: whether it comes down to PGD, which sees the gradients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool

from maxmahal.records.statistics import Comparison
from maxmahal.report.wording import listed, points
from paper.pages.judging import ALPHA, POINT, Judgement, Verdict, ours_at, said
from paper.pages.leads import of_images
from paper.pages.models import SPSA_SIZES
from paper.pages.needs import settle
from paper.pages.shelf import PROTOCOL, SIZES, Shelf, counted_right, ours_text, paper_text
from paper.pages.tables import markdown

NEAR = 5.0  # points from PGD that count as having come down to it
MODES = ("un", "tar")
LEVEL = ALPHA / len(MODES)  # of a test of one of them, so that both together have the chance of an error of one
_MMC = "cifar10-mmc"
_FALLS = {
    "falls": "a fall beyond chance",
    "open": "no fall beyond chance, none ruled out",
    "no fall": "a fall of a point is ruled out",
}
_ENDS = {
    "near": "within five points of it, interval and all",
    "not below": "above it or near it, interval and all",
    "below": "below it beyond chance",
    "perhaps below": "below it, but not beyond chance",
    "open": "near it or far from it, which these images cannot tell",
}


@dataclass(frozen=True, eq=False)
class Approach:
    """Which of the same images are right under SPSA's smallest and largest batch and under PGD-10."""

    first: Bool[np.ndarray, " n"]
    last: Bool[np.ndarray, " n"]
    pgd: Bool[np.ndarray, " n"]

    @property
    def fall(self) -> Literal["falls", "open", "no fall"]:
        """From the smallest batch to the largest."""
        gap = of_images(_paired(self.first, self.last))
        if gap.interval(1 - LEVEL)[1] < POINT:
            return "no fall"
        return "falls" if gap.p_value < LEVEL and gap.size >= POINT else "open"

    @property
    def end(self) -> Literal["near", "not below", "below", "perhaps below", "open"]:
        """Of the largest batch, beside PGD-10."""
        gap = of_images(_paired(self.last, self.pgd))
        low, high = gap.interval(1 - LEVEL)
        if low >= -NEAR:
            return "near" if high <= NEAR else "not below"
        if gap.size >= -NEAR:
            return "open"
        return "below" if gap.p_value < LEVEL else "perhaps below"

    def __str__(self) -> str:
        """From where to where, beside what, and what may be said of it."""
        first, last, pgd = (f"{100 * right.mean():.1f}" for right in (self.first, self.last, self.pgd))
        fall, end = _paired(self.first, self.last), _paired(self.last, self.pgd)
        low, high = of_images(end).interval(1 - LEVEL)
        return (
            f"from {first} to {last} % of {fall.total:,} images ({_FALLS[self.fall]}, {fall.first_only} to "
            f"{fall.second_only}); PGD-10 leaves {pgd} % of the same images, and SPSA ends {_ENDS[self.end]}: "
            f"{said(end)}, interval [{points(low / 100)}, {points(high / 100)}]"
        )


def spsa(shelf: Shelf) -> Judgement:
    """Holds if SPSA's accuracy falls from batches of 128 to 8192 and ends within five points of PGD-10's, un and tar.

    All on the same images and paired: a fall is of at least a point with an exact McNemar p below 0.025 (0.05 for un
    and tar together), and within five points is the whole 97.5 % interval of the difference. In part if both fall and
    that interval goes further above PGD-10, but not further below. Does not hold if for either of them the interval of
    the fall ends below a point, or SPSA ends more than five points below PGD-10 with such a p: an attack that finds
    more without gradients than PGD with them is a sign of masked ones. Undecided otherwise: few images can show a fall,
    but not where it ends.
    """
    shown = markdown(["MMC-10 at 8/256", "paper", "ours"], [row for mode in MODES for row in _rows(shelf, mode)])
    seen = {mode: each for mode in MODES if (each := _approach(shelf, mode)) is not None}
    if not seen:
        reason = "SPSA's smallest and largest batch and PGD-10 were not all measured on the same images of MMC-10."
        return Judgement("not measured", reason, shown)
    told = "; ".join(f"{mode} {each}" for mode, each in seen.items())
    reason = f"With batches of 8192 instead of 128 the accuracy under SPSA goes {told}.{_masked(shelf, seen)}"
    sizes = [(mode, size, f"spsa-{mode}-8{end}") for mode in MODES for size, end in SPSA_SIZES.items()]
    missing = [f"SPSA {mode}, batch {size}" for mode, size, name in sizes if not shelf.stage(_MMC, name, (SIZES,))]
    missing += [f"SPSA {mode} and PGD-10 {mode} on the same images" for mode in MODES if mode not in seen]
    return settle(_verdict(list(seen.values())), reason, shown, missing)


def _rows(shelf: Shelf, mode: str) -> list[list[str]]:
    """SPSA batch by batch, PGD on the same images, and PGD-10 on all."""
    body = []
    for size, end in SPSA_SIZES.items():
        stage = f"spsa-{mode}-8{end}"
        ours = shelf.stage(_MMC, stage, (SIZES,))
        body.append([f"SPSA {mode}, batch {size}", _row_of_the_paper(shelf, stage, "Table 3"), ours_text(ours)])
    for steps in (10, 50):
        right = _after(shelf, f"pgd{steps}-{mode}-8")
        told = "not measured" if right is None else ours_text(counted_right(right))
        body.append([f"PGD-{steps} {mode}, the same images", "–", told])
    stage = f"pgd10-{mode}-8"
    ours = ours_at(shelf, _MMC, stage)
    return [*body, [f"PGD-10 {mode}, as in Table 1", _row_of_the_paper(shelf, stage, "Table 1"), ours_text(ours)]]


def _approach(shelf: Shelf, mode: str) -> Approach | None:
    """None where one of the three was not measured, or on other images."""
    first, last = (_after(shelf, f"spsa-{mode}-8{SPSA_SIZES[size]}", (SIZES,)) for size in ("128", "8192"))
    pgd = _after(shelf, f"pgd10-{mode}-8")
    return None if first is None or last is None or pgd is None else Approach(first, last, pgd)


def _after(shelf: Shelf, stage: str, suites: Sequence[str] = PROTOCOL) -> Bool[np.ndarray, " n"] | None:
    """Which of the images of SPSA's batches MMC-10 gets right after an attack."""
    sizes = shelf.find(_MMC, SIZES)
    return None if sizes is None else shelf.right_after(sizes, stage, suites)


def _verdict(seen: Sequence[Approach]) -> Verdict:
    if any(each.fall == "no fall" or each.end == "below" for each in seen):
        return "does not hold"
    if any(each.fall == "open" or each.end in ("open", "perhaps below") for each in seen):
        return "undecided"
    return "holds" if all(each.end == "near" for each in seen) else "holds in part"


def _masked(shelf: Shelf, seen: Mapping[str, Approach]) -> str:
    """What it means that SPSA ends below PGD-10, and how far PGD itself gets with more steps; empty where it does not.

    A white-box attack of few steps may be beaten for want of steps alone.
    """
    ends = {each.end for each in seen.values()}
    if not ends & {"below", "perhaps below"}:
        return ""
    told = " To find more without gradients than with them is a sign of masked gradients"
    told += "." if "below" in ends else "; these images neither show it beyond chance nor rule it out."
    more = {mode: right for mode in seen if (right := _after(shelf, f"pgd50-{mode}-8")) is not None}
    left = [f"{mode} {100 * right.mean():.1f} %" for mode, right in more.items()]
    return f"{told} PGD with 50 steps leaves {listed(left)} of them." if left else told


def _row_of_the_paper(shelf: Shelf, stage: str, table: str) -> str:
    return paper_text(shelf.paper(_MMC, stage, table)) or "–"


def _paired(ours: Bool[np.ndarray, " n"], theirs: Bool[np.ndarray, " n"]) -> Comparison:
    return Comparison(int((ours & ~theirs).sum()), int((theirs & ~ours).sum()), len(ours))
