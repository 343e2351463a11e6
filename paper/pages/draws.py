"""Optimal centers against random ones: these are another draw in every training, so that one says nothing of them."""

from collections.abc import Callable
from dataclasses import replace

from maxmahal.report.wording import p_told, points
from paper.pages.both import HUNDRED
from paper.pages.judging import POINT, Judgement, Verdict, between, evidence, strong_pair
from paper.pages.leads import leads, leads_table
from paper.pages.models import PGD_8, PGD_16
from paper.pages.needs import Needs, grid, settle
from paper.pages.paired import ENOUGH, Difference
from paper.pages.shelf import PROTOCOL, Shelf
from paper.summaries import pair_up

_PGD = (*PGD_8, *PGD_16)
_MMC, _RANDOM = "cifar10-mmc", "cifar10-mmc-rand"
_TABLE_4 = "README.md#table-4-pgd-spsa-cw"
_ONE = "Column by column, over the images of one training of each and one draw, which decides nothing by itself:"


def centers(shelf: Shelf) -> Judgement:
    """Holds if the optimal centers are ahead under the paper's attacks and at worst; in part if under these alone.

    Ahead: by a point, and by a t interval (95 %) over training seeds that leaves out zero. It takes three seeds that
    both were trained with, each with a draw of its own for the random centers; a seed's number is the difference on the
    same images, under the paper's attacks the mean over the columns of what is kept. Does not hold if the interval
    under the paper's attacks ends below a point; undecided otherwise, and with fewer seeds.
    """
    judged = _judge(shelf)
    return replace(judged, reason=judged.reason + _hundred(shelf))


def _judge(shelf: Shelf) -> Judgement:
    found = leads(shelf, _MMC, (_RANDOM,), _PGD)
    shown = evidence(shelf, (_RANDOM, _MMC), _PGD)
    if not found:
        return Judgement("not measured", "MMC-10 was not evaluated beside random centers.", shown)
    shown += f"\n\n{_ONE}\n\n{leads_table(found)}"
    attacked, worst = over_draws(shelf, _under_attack), over_draws(shelf, _at_worst)
    missing = Needs(grid((_RANDOM, _MMC), _PGD)).missing(shelf)
    for gap, where in ((attacked, "under the paper's attacks"), (worst, "at worst")):
        if gap.n < ENOUGH:
            missing.append(f"{ENOUGH} training seeds of both {where}, where there {_are(gap.n)}")
    verdict: Verdict = "undecided"
    if attacked.n >= ENOUGH and attacked.interval[1] < POINT:
        verdict = "does not hold"
    elif attacked.verdict() == "helps":
        verdict = "holds" if worst.verdict() == "helps" else "holds in part"
    reason = (
        "What optimal centers keep less what random ones keep: under the paper's attacks, the mean of "
        f"{len(_PGD)} columns, {_told(attacked)}; at worst (AutoAttack, else strict) {_told(worst)}."
    )
    return settle(verdict, reason, shown, missing)


def _hundred(shelf: Shelf) -> str:
    """What one training of each on CIFAR-100 shows, which the paper has no random centers on; empty without it."""
    found = leads(shelf, HUNDRED.mmc, (f"{HUNDRED.mmc}-rand",), HUNDRED.columns)
    told = [
        f"{each.title} {each.gap.words}, {p_told(each.chance)}"
        for each in found
        if each.gap and each.chance is not None
    ]
    if not told:
        return ""
    return (
        f" On CIFAR-100, where the paper has no random centers and which decides nothing here, one training of each: "
        f"{'; '.join(told)} ([Table 4]({_TABLE_4}))."
    )


def over_draws(shelf: Shelf, measure: Callable[[Shelf, str, str], float | None]) -> Difference:
    """Optimal less random centers in points, for every training seed that both have; a draw counts once."""
    found: dict[object, float] = {}
    for name in shelf.seeds(_RANDOM):
        gap = measure(shelf, _MMC + name.removeprefix(_RANDOM), name)
        if gap is not None:
            found.setdefault(_draw(shelf, name), gap)
    return Difference(tuple(found.values()))


def _under_attack(shelf: Shelf, ours: str, theirs: str) -> float | None:
    """The mean over every column of PGD, on the same images; None where one of them is missing."""
    pairs = [shelf.stage_pair(ours, theirs, stage, PROTOCOL) for stage in _PGD]
    gaps = [100 * pair.difference for pair in pairs if pair is not None]
    return sum(gaps) / len(gaps) if len(gaps) == len(_PGD) else None


def _at_worst(shelf: Shelf, ours: str, theirs: str) -> float | None:
    pair = strong_pair(shelf, ours, theirs)
    return None if pair is None else 100 * pair_up(*pair).difference


def _draw(shelf: Shelf, model: str) -> object:
    """Which draw of centers a model has, by the seed in its settings; where nobody wrote that down, its own name."""
    return shelf.settings(model).get("centers", {}).get("seed", model)


def _are(count: int) -> str:
    return "is none" if not count else "is one" if count == 1 else f"are {count}"


def _told(gap: Difference) -> str:
    if not gap.n:
        return "not measured"
    size = f"{points(gap.mean / 100)} points" if gap.n < ENOUGH else between(gap.mean, gap.interval)
    return f"{size} over {gap.n} training seed{'s' if gap.n > 1 else ''}"
