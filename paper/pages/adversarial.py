"""AT (SCE) against AT (MMC-10) at two budgets: the comparison that the paper's fourth claim stands or falls with."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from maxmahal.report.wording import points
from paper.pages.baseline import baseline, is_short_of_it, own_training, why_unfair
from paper.pages.hundred import beside_ten
from paper.pages.judging import (
    POINT,
    Judgement,
    Verdict,
    between,
    both_worst,
    evidence,
    mean_clean,
    said,
    tested,
)
from paper.pages.leads import Gap, of_images
from paper.pages.models import LONG, PGD_8, SHORT
from paper.pages.needs import settle
from paper.pages.paired import ENOUGH, Difference
from paper.pages.shelf import NOT_RUN, STRONG, Shelf, ours_text
from paper.pages.tables import markdown
from paper.summaries import BEST, Summary, pair_up

_ELSEWHERE = (
    "Every pair of models, seed by seed and with the best checkpoints: [the two budgets]"
    "(README.md#adversarial-training-at-two-budgets)."
)
SUITE = "autoattack"
_SCE, _MMC = LONG
Interval = tuple[float, float]


@dataclass(frozen=True)
class Spread:
    """Robust accuracies of one method's training seeds, in percent."""

    values: tuple[float, ...]

    def __str__(self) -> str:
        """ "45.1 ± 0.4 (3 seeds)"."""
        if len(self.values) < 2:
            return f"{self.values[0]:.1f} (1 seed)" if self.values else NOT_RUN
        deviation = float(np.std(self.values, ddof=1))
        return f"{np.mean(self.values):.1f} ± {deviation:.1f} ({len(self.values)} seeds)"


def at(shelf: Shelf) -> Judgement:
    """Holds if MMC is ahead under AutoAttack at both budgets and nowhere more than a point behind on clean images.

    In part if it is ahead at one budget and not behind at the other, or ahead at both but worse on clean images. Does
    not hold if it is behind at either, or if both intervals end below a point; undecided otherwise, and also in place
    of that where its own training misses what is asked of the baseline. Ahead or behind: the 95 % interval leaves out
    zero. At the long budget that is an interval over images, of one training seed's last checkpoints; at the short one
    a t interval over at least three pairs of training seeds. Best checkpoints decide nothing. Only beside a fair
    baseline.
    """
    judged = _judge(shelf)
    return replace(judged, reason=judged.reason + beside_ten(shelf))


def _judge(shelf: Shelf) -> Judgement:
    shown = _shown(shelf)
    if unfair := why_unfair(shelf):
        return Judgement("not measured", unfair, shown)
    long, short, gaps = long_gap(shelf), short_difference(shelf), clean_gaps(shelf)
    if long is None:
        reason = "AutoAttack has not been run on both models of the long budget, on the same images."
        return Judgement("not measured", reason, shown)
    ends = [long.interval(), short.interval if short.n >= ENOUGH else (-math.inf, math.inf)]
    verdict = _verdict(*ends, costs=len(gaps) < len(ends) or min(gaps.values()) < -POINT)
    reason = f"At the long budget AT (MMC-10) is {_standing(ends[0])} ({long_told(shelf)}); at the short budget "
    reason += f"it is {_standing(ends[1])} ({short_told(shelf)}). " if short.n else "nothing was measured. "
    told = " and ".join(f"{points(gap / 100)} points ({what})" for what, gap in gaps.items())
    reason += f"On clean images the difference is {told or 'not known'}."
    if verdict == "does not hold" and is_short_of_it(shelf):
        verdict = "undecided"
        reason += " It is undecided as AT (MMC-10) itself was trained too little by the measure of the baseline."
    pairs = f"AutoAttack on {ENOUGH} pairs of training seeds at the short budget, without which there is no interval"
    return settle(verdict, reason, shown, [] if short.n >= ENOUGH else [pairs])


def long_gap(shelf: Shelf) -> Gap | None:
    """MMC against SCE by the last checkpoints of the long budget, under AutoAttack on the same images."""
    pair = shelf.pair(_MMC, _SCE, SUITE)
    return None if pair is None else of_images(pair_up(*pair))


def short_difference(shelf: Shelf) -> Difference:
    """MMC against SCE under AutoAttack at the short budget, one number a pair of training seeds, in points."""
    return Difference(tuple(100 * pair_up(*pair).difference for pair in _attacked_pairs(shelf)))


def long_told(shelf: Shelf) -> str:
    """The difference at the long budget with its interval, the paired test, and what the interval is over."""
    pair, gap = shelf.pair(_MMC, _SCE, SUITE), long_gap(shelf)
    if pair is None or gap is None:
        return NOT_RUN
    test = tested(pair_up(*pair))
    return f"{gap.told} over the images of one training seed, {test}"


def short_told(shelf: Shelf) -> str:
    """The mean difference over seed pairs with its interval, and the images that all of them share."""
    found = short_difference(shelf)
    if not found.n:
        return NOT_RUN
    seen = " or ".join(f"{count:,}" for count in sorted({pair[0].samples for pair in _attacked_pairs(shelf)}))
    over = f"over {found.n} pair{'s' if found.n > 1 else ''} of training seeds on the same {seen} images"
    if found.n < ENOUGH:
        return f"{points(found.mean / 100)} points {over}, too few for an interval"
    return f"{between(found.mean, found.interval)} {over}"


def clean_gaps(shelf: Shelf) -> dict[str, float]:
    """How far MMC is ahead of SCE on clean images at each budget, in points; means over seeds that both have."""
    groups = {"long": ([_SCE], [_MMC]), "short": tuple(map(list, zip(*_seed_pairs(shelf), strict=True)))}
    found = {}
    for what, group in groups.items():
        means = mean_clean(shelf, *group) if group else None
        if means is not None:
            found[what] = means[1] - means[0]
    return found


def spreads(shelf: Shelf, suite: str = SUITE) -> dict[str, Spread]:
    """Each method's seeds at the short budget."""
    return {base: Spread(tuple(_robust(shelf, name, suite) for name in _seen(shelf, base, suite))) for base in SHORT}


def compared_models(shelf: Shelf) -> list[str]:
    """Everything in the experiment, last and best checkpoints; its four main models even where they are missing."""
    names = []
    for base in (*LONG, *SHORT):
        for name in dict.fromkeys([base, *shelf.seeds(base)]):
            names += [name, *(best for best in [f"{name}{BEST}"] if any(x.name == best for x in shelf.evaluations))]
    return names


def paired_table(shelf: Shelf) -> str:
    """MMC against SCE on the same images, checkpoint by checkpoint and seed by seed; no row where neither was run."""
    body = []
    for what, sce, mmc in _pairs(shelf):
        for suite in STRONG:
            found, cells = shelf.pair(mmc, sce, suite), both_worst(shelf, sce, mmc, suite)
            if any(cells):
                told = NOT_RUN if found is None else said(pair_up(*found))
                body.append([what, suite, *map(ours_text, cells), told])
    return markdown(["budget", "suite", "AT (SCE)", "AT (MMC-10)", "MMC-10 ahead by, exact McNemar test"], body, 2)


def _pairs(shelf: Shelf) -> list[tuple[str, str, str]]:
    """A name, AT (SCE) and AT (MMC-10) of everything that can be set side by side."""
    twins = sorted({name.removeprefix(base) for base in SHORT for name in shelf.seeds(base)} | {""})
    ends = [("long, last", LONG, ""), ("long, best", LONG, BEST)]
    ends += [(f"short, last{suffix.replace('-', ', ')}", SHORT, suffix) for suffix in twins]
    ends += [("short, best", SHORT, BEST)]
    return [(what, f"{sce}{suffix}", f"{mmc}{suffix}") for what, (sce, mmc), suffix in ends]


def _seed_pairs(shelf: Shelf) -> list[tuple[str, str]]:
    """AT (SCE) and AT (MMC-10) of each training seed at the short budget that both were evaluated with."""
    measured = {each.name for each in shelf.evaluations}
    ends = sorted({name.removeprefix(base) for base in SHORT for name in shelf.seeds(base)})
    return [(SHORT[0] + end, SHORT[1] + end) for end in ends if {SHORT[0] + end, SHORT[1] + end} <= measured]


def _attacked_pairs(shelf: Shelf) -> list[tuple[Summary, Summary]]:
    """AT (MMC-10) and AT (SCE) of each such seed, as far as both met AutoAttack on the same images."""
    pairs = [shelf.pair(mmc, sce, SUITE) for sce, mmc in _seed_pairs(shelf)]
    return [pair for pair in pairs if pair is not None]


def _verdict(long: Interval, short: Interval, *, costs: bool) -> Verdict:
    standings = {_standing(long), _standing(short)}
    if "behind" in standings:
        return "does not hold"
    if "ahead" in standings:
        return "holds" if standings == {"ahead"} and not costs else "holds in part"
    return "does not hold" if max(long[1], short[1]) < POINT else "undecided"


def _standing(interval: Interval) -> Literal["ahead", "not to be told apart", "behind"]:
    return "ahead" if interval[0] > 0 else "behind" if interval[1] < 0 else "not to be told apart"


def _shown(shelf: Shelf) -> str:
    parts = [baseline(shelf), own_training(shelf), evidence(shelf, LONG, ("clean", *PGD_8)), _ELSEWHERE]
    return "\n\n".join(parts)


def _seen(shelf: Shelf, base: str, suite: str) -> list[str]:
    return [name for name in shelf.seeds(base) if shelf.robust(name, suite) is not None]


def _robust(shelf: Shelf, name: str, suite: str) -> float:
    found = shelf.robust(name, suite)
    return float("nan") if found is None else found.value
