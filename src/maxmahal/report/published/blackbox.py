"""Verdicts on attacks that do not see the model's gradients: C&W beside SPSA and transfer, and SPSA's batches."""

from dataclasses import dataclass
from typing import Literal

from maxmahal.evaluate.statistics import Rate
from maxmahal.evaluate.summary import StageSummary, Summary, pair_stage
from maxmahal.report.published.judging import Judgement, Verdict, evidence, ours_at
from maxmahal.report.published.leads import Gap, columns, counted, judge, leads_table, of_images, over_kinds
from maxmahal.report.published.models import ADVERSARIAL, DISTANCES, OTHER_LOSSES, SPSA, SPSA_SIZES, title_of
from maxmahal.report.published.needs import Needs, grid, settle
from maxmahal.report.published.shelf import PROTOCOL, SIZES, Shelf, ours_text, paper_text
from maxmahal.report.published.tables import crafting, is_transfer, markdown
from maxmahal.report.wording import listed

WAYS = ("PGD", "MIM")
"""How the paper's Figure 4 crafts the images that it shows to other models."""
SOURCES = ADVERSARIAL[:2]
"""The models of Figure 4 that are neither SCE nor MMC-10."""
FIGURE_4 = "paper-figure4"
NEAR = 5.0  # points from PGD that count as having come down to it
_SCE, _MMC = "cifar10-sce", "cifar10-mmc"
_WORDS = {
    "near": "within five points of it, interval and all",
    "falls": "a fall, but not within five points of it with the whole interval",
    "too few": "a fall that so few images cannot tell from chance",
    "no fall": "no fall",
}


@dataclass(frozen=True)
class Moved:
    """Two models on the same images that others were attacked with, one way of crafting: mean accuracies in percent."""

    ours: float
    theirs: float
    gaps: dict[str, Gap | None]
    """By the models that the images were crafted on; both saw all of them, and neither is one of them."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Those models."""
        return tuple(self.gaps)


def threats(shelf: Shelf) -> Judgement:
    """Holds if MMC leads in every column of C&W, SPSA and transfer by PGD and by MIM; in part if in all of one of them.

    Does not hold if in each of the three that was run a lead is ruled out in some column; undecided otherwise. Transfer
    is compared with SCE alone, on images crafted on models that are neither of the two and that both saw.
    """
    stages = (*DISTANCES, *SPSA)
    moved = transferred(shelf, _MMC, _SCE)
    kinds = [columns(shelf, _MMC, OTHER_LOSSES, each) for each in (DISTANCES, SPSA)]
    kinds.append(
        {
            f"transfer by {way} from {title_of(shelf, source)}": {title_of(shelf, _SCE): gap}
            for way, each in moved.items()
            for source, gap in each.gaps.items()
        }
    )
    found = judge({title: gaps for kind in kinds for title, gaps in kind.items()})
    shown = evidence(shelf, (*OTHER_LOSSES, _MMC), stages, strong=False)
    shown += f"\n\nTransfer (Figure 4), mean accuracy over images crafted on other models: {_told(shelf, moved)}."
    if not found:
        return Judgement("not measured", "None of these attacks was run.", shown)
    shown += f"\n\n{leads_table(found)}"
    included = f"transfer by {listed(list(moved))} included" if moved else "transfer not run"
    reason = f"MMC-10 leads in {counted(found)}, {included}."
    missing = Needs(grid((*OTHER_LOSSES, _MMC), stages)).missing(shelf)
    for way in WAYS:
        seen = moved[way].sources if way in moved else ()
        missing += [f"transfer by {way} from {title_of(shelf, each)}" for each in SOURCES if each not in seen]
    verdict = over_kinds([[lead for lead in found if lead.title in kind] for kind in kinds])
    return settle(verdict, reason, shown, missing)


def transferred(shelf: Shelf, ours: str, theirs: str) -> dict[str, Moved]:
    """Each way of crafting that both models met on the same images."""
    found: dict[str, Moved] = {}
    for suite in (FIGURE_4, *PROTOCOL):
        pair = shelf.pair(ours, theirs, suite)
        if pair is None:
            continue
        for way in WAYS:
            first, second = (_by_source(each, way) for each in pair)
            common = tuple(source for source in first if source in second and source not in (ours, theirs))
            if common and way not in found:
                gaps = {source: _gap(pair, first[source], second[source]) for source in common}
                found[way] = Moved(_mean(first, common), _mean(second, common), gaps)
    return found


def spsa(shelf: Shelf) -> Judgement:
    """Holds if SPSA's accuracy falls from the smallest batch to the largest and ends within five points of PGD-10.

    Both untargeted and targeted, and beyond chance: the largest batch's accuracy is below the whole interval of the
    smallest batch's, and the largest batch's whole interval is within the five points. In part if it only falls,
    undecided where so few images cannot tell a fall from chance. With the 100 images of the paper's Table 3 an interval
    is some 20 points wide, so that they can show a fall and no more.
    """
    body, states, told, missing = [], [], [], []
    for mode in ("un", "tar"):
        pgd = ours_at(shelf, _MMC, f"pgd10-{mode}-8")
        sizes = {size: shelf.stage(_MMC, f"spsa-{mode}-8{end}", (SIZES,)) for size, end in SPSA_SIZES.items()}
        printed = [_row_of_the_paper(shelf, f"spsa-{mode}-8{end}", "Table 3") for end in SPSA_SIZES.values()]
        printed.append(_row_of_the_paper(shelf, f"pgd10-{mode}-8", "Table 1"))
        rows = {f"SPSA {mode}, batch {size}": each for size, each in sizes.items()} | {f"PGD-10 {mode}": pgd}
        body += [[name, paper, ours_text(rows[name])] for name, paper in zip(rows, printed, strict=True)]
        missing += [name for name, each in rows.items() if each is None]
        first, *_, last = sizes.values()
        if first is not None and last is not None and pgd is not None and first.rate and last.rate:
            state = _approach(first.rate, last.rate, pgd.value)
            states.append(state)
            told.append(
                f"{mode} from {first.value:.1f} to {last.value:.1f} % of {last.samples:,} images, beside "
                f"{pgd.value:.1f} % under PGD-10 ({_WORDS[state]})"
            )
    shown = markdown(["MMC-10 at 8/256", "paper", "ours"], body)
    if not states:
        reason = "The smallest and the largest batch of SPSA and PGD-10 have not all been run on MMC-10."
        return Judgement("not measured", reason, shown)
    verdict: Verdict = "holds in part"
    if set(states) == {"near"}:
        verdict = "holds"
    elif "no fall" in states:
        verdict = "does not hold"
    elif set(states) == {"too few"}:
        verdict = "undecided"
    reason = f"With batches of 8192 instead of 128 the accuracy under SPSA goes {'; '.join(told)}."
    return settle(verdict, reason, shown, missing)


def _approach(first: Rate, last: Rate, pgd: float) -> Literal["near", "falls", "too few", "no fall"]:
    """How the accuracy under SPSA moves from its smallest to its largest batch."""
    if last.value >= first.value:
        return "no fall"
    if last.value >= first.interval[0]:
        return "too few"
    low, high = (100 * end for end in last.interval)
    return "near" if pgd - NEAR <= low and high <= pgd + NEAR else "falls"


def _row_of_the_paper(shelf: Shelf, stage: str, table: str) -> str:
    return paper_text(shelf.paper(_MMC, stage, table)) or "–"


def _by_source(summary: Summary, way: str) -> dict[str, StageSummary]:
    return {
        stage.source: stage
        for stage in summary.stages
        if is_transfer(stage) and stage.accuracy is not None and crafting(stage).startswith(way)
    }


def _gap(pair: tuple[Summary, Summary], ours: StageSummary, theirs: StageSummary) -> Gap | None:
    counts = pair_stage(*pair, ours.name) if ours.name == theirs.name else None
    return None if counts is None else of_images(counts)


def _mean(seen: dict[str, StageSummary], sources: tuple[str, ...]) -> float:
    rates = [seen[source].accuracy for source in sources]
    return sum(100 * rate.value for rate in rates if rate is not None) / len(rates)


def _told(shelf: Shelf, moved: dict[str, Moved]) -> str:
    names = [title_of(shelf, model) for model in (_MMC, _SCE)]
    told = [
        f"{way} {names[0]} {each.ours:.1f} %, {names[1]} {each.theirs:.1f} % "
        f"(from {listed([title_of(shelf, source) for source in each.sources])})"
        for way, each in moved.items()
    ]
    return "; ".join(told) or "not run"
