"""What single trainings of the scan tell: small ratios, trees at one ratio, and choices at the scan's edge."""

from collections.abc import Sequence
from typing import NamedTuple

from maxmahal.records.statistics import points_apart
from maxmahal.report.wording import listed
from paper.pages.edges import Edge, edge_of
from paper.pages.judging import POINT
from paper.pages.leads import of_images
from paper.pages.tables import markdown
from paper.pages.trees_beside import Beside
from paper.pages.trees_rules import SCAN_SEED, choose
from paper.pages.trees_study import (
    BETWEEN,
    GIVEN_NAMES,
    LEARNED,
    MMC,
    NAMES,
    ORTHOGONAL,
    RANDOM,
    SMALL,
    Family,
    ratio_of,
)
from paper.pages.variants.results import Results
from paper.pages.variants.rules import signed
from paper.pages.variants.spec import Metric

UNPAIRED = "‡"
"""Marks an interval that is made of two models' rates, as if each had seen other images."""


class Apart(NamedTuple):
    """How far one training is ahead of another, in points, with an interval over images."""

    size: float
    low: float
    high: float
    paired: bool
    """Whether the interval is of the two models' answers to each image, which they share."""


SAME_RATIO = (
    (ORTHOGONAL, RANDOM, "given tree less random tree"),
    (LEARNED, ORTHOGONAL, "learned tree less given tree"),
)


def apart(results: Results, arm: str, reference: str, metric: Metric, beside: Beside) -> Apart | None:
    """Of the scan's seed, image by image where summaries tell; None where one of the two was not run."""
    runs = {run.arm: run for run in results.runs if run.seed == SCAN_SEED}
    if arm not in runs or reference not in runs:
        return None
    pair = beside.paired(runs[arm], runs[reference], metric)
    if pair is not None:
        gap = of_images(pair)
        return Apart(gap.size, *gap.interval(), paired=True)
    ours, theirs = runs[arm].rate(metric), runs[reference].rate(metric)
    return None if ours is None or theirs is None else Apart(*points_apart(ours, theirs), paired=False)


def same_ratio(results: Results, ours: Family, theirs: Family, metric: Metric, beside: Beside) -> dict[str, Apart]:
    """Two families ratio by ratio, where both were run."""
    found = {
        value: apart(results, f"{ours.name}-{value}", f"{theirs.name}-{value}", metric, beside) for value in ours.values
    }
    return {value: gap for value, gap in found.items() if gap is not None}


def same_ratio_table(results: Results, beside: Beside) -> str:
    """Trees against each other at equal ratios, one training each; empty where there is none."""
    rows = []
    for ours, theirs, title in SAME_RATIO:
        columns = [same_ratio(results, ours, theirs, metric, beside) for metric in BETWEEN]
        rows += [
            [f"{title}, both at ratio {value}", *(_cell(column.get(value)) for column in columns)]
            for value in columns[0]
        ]
    if not rows:
        return ""
    return markdown([f"seed {SCAN_SEED}, in points", *(NAMES[metric] for metric in BETWEEN)], rows)


def small_ratios(results: Results, metric: Metric, beside: Beside) -> dict[str, Apart]:
    """The given tree at ratios as small as the paper means, against MMC, by arm."""
    names = [name for name in GIVEN_NAMES if float(ratio_of(name)) <= SMALL]
    found = {name: apart(results, name, MMC, metric, beside) for name in names}
    return {name: gap for name, gap in found.items() if gap is not None}


def spanned(gaps: Sequence[Apart]) -> str:
    """From the lowest difference to the highest."""
    means = sorted(gap.size for gap in gaps)
    return f"{signed(means[0])} to {signed(means[-1])}"


def small_predicted(results: Results, beside: Beside) -> list[str]:
    """What became of the paper's hope at the ratios that it means; nothing where none was run."""
    gaps = small_ratios(results, "clean", beside)
    if not gaps:
        return []
    titles = {arm.name: arm.title for arm in results.study.arms}
    helps = [gap.low > 0 and gap.size >= POINT for gap in gaps.values()]
    hurts = [gap.high < 0 and gap.size <= -POINT for gap in gaps.values()]
    outcome = "Came true" if all(helps) else "Came true in part" if any(helps) else "Did not come true"
    outcome = outcome if any(helps) or any(hurts) else "Undecided"
    ends = [pick(gaps, key=lambda name: gaps[name].size) for pick in (min, max)]
    told = "; ".join(f"{titles[name]} {_interval(gaps[name])}" for name in dict.fromkeys(ends))
    images = "the same images" if all(gap.paired for gap in gaps.values()) else "images, not all of them paired"
    return [
        f"*The paper* (appendix B.3) *means* C2 ≪ C1. Judged at ratios up to {SMALL:g}, one training of each of "
        f"{len(gaps)} arms, intervals over {images}: **{outcome}**; clean accuracy less MMC-10's at worst and at best: "
        f"{told} points."
    ]


def edges(results: Results, families: Sequence[Family], beside: Beside) -> dict[Edge, list[tuple[Family, str]]]:
    """Whose chosen number is the "highest" or the "lowest" of several that were scanned, and which one it is."""
    found: dict[Edge, list[tuple[Family, str]]] = {"highest": [], "lowest": []}
    for family in families:
        choice = choose(results, family, beside)
        tried = {name: float(ratio_of(name)) for name in choice.scores}
        edge = edge_of(tried[choice.best], tried.values()) if tried else None
        if edge is not None:
            found[edge].append((family, ratio_of(choice.best)))
    return found


def edges_told(results: Results, families: Sequence[Family], beside: Beside) -> list[str]:
    """Choices beyond which a better one may lie; nothing where there is none."""
    told = [
        f"{family.title} ({family.symbol} {value}, the {word})"
        for word, found in edges(results, families, beside).items()
        for family, value in found
    ]
    return [f"Chosen at the edge of what was tried, so a better value may lie beyond: {listed(told)}."] if told else []


def _cell(gap: Apart | None) -> str:
    return "–" if gap is None else f"{_interval(gap)}{'' if gap.paired else UNPAIRED}"


def _interval(gap: Apart) -> str:
    return f"{signed(gap.size)} [{signed(gap.low)}, {signed(gap.high)}]"
