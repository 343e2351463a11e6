"""Optimal centers against random ones: these are another draw in every training, so that one says nothing of them."""

from maxmahal.report.published.judging import POINT, Judgement, Verdict, evidence, strong_standing
from maxmahal.report.published.leads import leads, leads_table
from maxmahal.report.published.models import PGD_8, PGD_16
from maxmahal.report.published.needs import Needs, grid, settle
from maxmahal.report.published.shelf import Shelf
from maxmahal.report.published.variants.paired import ENOUGH, Difference
from maxmahal.report.wording import points

_PGD = (*PGD_8, *PGD_16)
_MMC, _RANDOM = "cifar10-mmc", "cifar10-mmc-rand"
_STANDINGS = {None: "nothing was measured", "ahead": "they are ahead", "tied": "nobody is ahead", "behind": "they lose"}


def centers(shelf: Shelf) -> Judgement:
    """Holds if the optimal centers are ahead under the paper's attacks and at worst; in part if under these alone.

    Ahead: by a point and a t interval (95 %) that leaves out zero, over at least three trainings with the one and three
    with the other, each of these with a draw of its own; one number a training, the mean over the columns of what is
    kept. Does not hold if that interval ends below a point; undecided otherwise, and with fewer trainings.
    """
    found = leads(shelf, _MMC, (_RANDOM,), _PGD)
    shown = evidence(shelf, (_RANDOM, _MMC), _PGD)
    if not found:
        return Judgement("not measured", "MMC-10 was not evaluated beside random centers.", shown)
    shown += f"\n\nColumn by column, one training of each and one draw:\n\n{leads_table(found)}"
    gap, at_worst = over_draws(shelf), strong_standing(shelf, _MMC, (_RANDOM,))
    missing = Needs(grid((_RANDOM, _MMC), _PGD), pairs=((_MMC, _RANDOM),)).missing(shelf)
    if gap.n < ENOUGH:
        missing.append(f"{ENOUGH} trainings of each, without which a draw cannot be told from its luck")
    verdict: Verdict = "undecided"
    if gap.n >= ENOUGH and gap.interval[1] < POINT:
        verdict = "does not hold"
    elif gap.verdict() == "helps":
        verdict = "holds" if at_worst == "ahead" else "holds in part"
    reason = f"{_told(gap)}; at worst (AutoAttack, else strict) {_STANDINGS[at_worst]}."
    return settle(verdict, reason, shown, missing)


def over_draws(shelf: Shelf) -> Difference:
    """Optimal less random centers, the mean over the columns in points, for every training seed that both have."""
    ends = sorted({name.removeprefix(base) for base in (_MMC, _RANDOM) for name in shelf.seeds(base)})
    means = [(_mean(shelf, _MMC + end), _mean(shelf, _RANDOM + end)) for end in ends]
    return Difference(tuple(ours - theirs for ours, theirs in means if ours is not None and theirs is not None))


def _mean(shelf: Shelf, model: str) -> float | None:
    """What a model keeps, in percent, over every column of PGD; None where one of them is missing."""
    kept = [100 * rate.value for stage in _PGD if (rate := shelf.kept(model, stage)) is not None]
    return sum(kept) / len(_PGD) if len(kept) == len(_PGD) else None


def _told(gap: Difference) -> str:
    if not gap.n:
        return "Not every column of the paper's attacks was measured with both"
    between = "" if gap.n < ENOUGH else " [{}, {}]".format(*(points(end / 100) for end in gap.interval))
    return (
        "What optimal centers keep under the paper's attacks, less what random ones keep: "
        f"{points(gap.mean / 100)} points{between} over {gap.n} training{'s' if gap.n > 1 else ''} of each, the mean "
        f"of {len(_PGD)} columns"
    )
