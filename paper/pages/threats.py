"""The verdict on C&W, SPSA and transfer: how near an adversarial image is, and what is left without gradients."""

from dataclasses import dataclass

from maxmahal.report.wording import listed
from paper.pages.apart import weaker
from paper.pages.both import Scene, on_both
from paper.pages.judging import Judgement, evidence, ours_at
from paper.pages.leads import Gap, columns, counted, judge, leads_table, of_images, over_kinds
from paper.pages.models import ADVERSARIAL, DISTANCES, TITLES, title_of
from paper.pages.nearest import nearest_table
from paper.pages.needs import Needs, grid, settle
from paper.pages.shelf import PROTOCOL, Shelf
from paper.pages.tables import crafting, is_transfer
from paper.summaries import StageSummary, Summary, pair_stage

WAYS = ("PGD", "MIM")
"""How the paper's Figure 4 crafts the images that it shows to other models."""
SOURCES = ADVERSARIAL[:2]
"""The models of Figure 4 that are neither SCE nor MMC-10."""
FIGURE_4 = "paper-figure4"


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
    is compared with SCE alone, on images crafted on models that are neither of the two and that both saw. On CIFAR-100
    too, where it was measured, in the columns that the paper's Table 4 has, and without transfer, of which the paper
    shows nothing there.
    """
    return on_both(shelf, _threats)


def _threats(shelf: Shelf, scene: Scene) -> Judgement:
    models, stages = (*scene.others, scene.mmc), (*DISTANCES, *scene.black_box)
    moved = transferred(shelf, scene.mmc, scene.sce)
    kinds = [columns(shelf, scene.mmc, scene.others, each) for each in (DISTANCES, scene.black_box)]
    kinds.append(
        {
            f"transfer by {way} from {title_of(shelf, source)}": {title_of(shelf, scene.sce): gap}
            for way, each in moved.items()
            for source, gap in each.gaps.items()
        }
    )
    found = judge({title: gaps for kind in kinds for title, gaps in kind.items()})
    shown = evidence(shelf, models, stages, strong=False)
    if scene.transfer or moved:
        told = _told(shelf, scene, moved)
        shown += f"\n\nTransfer (Figure 4), mean accuracy over images crafted on other models: {told}."
    if not found:
        asked = "C&W, SPSA and transfer" if scene.transfer else "C&W and SPSA"
        return Judgement("not measured", f"{asked} were not run on MMC-10 and another loss.", shown)
    shown += f"\n\n{leads_table(found)}"
    if near := nearest_table(shelf, models):
        shown += f"\n\n{near}"
    included = f"transfer by {listed(list(moved))} included" if moved else "transfer not run"
    included += "" if scene.transfer else ", of which the paper has nothing here"
    reason = f"MMC-10 leads in {counted(found)}, {included}.{_stopped(shelf, models)}"
    if weak := weaker(shelf, scene.others, scene.black_box):
        reason += f" Under SPSA some keep less here than in the paper: {'; '.join(weak)}."
    missing = Needs(grid(models, stages)).missing(shelf)
    for way in WAYS if scene.transfer else ():
        seen = moved[way].sources if way in moved else ()
        missing += [f"transfer by {way} from {title_of(shelf, each)}" for each in SOURCES if each not in seen]
    verdict = over_kinds([[lead for lead in found if lead.title in kind] for kind in kinds])
    return settle(verdict, reason, shown, missing)


def _stopped(shelf: Shelf, models: tuple[str, ...]) -> str:
    """Where C&W left images that it should have turned, so that its distances cannot be compared; empty elsewhere."""
    told = []
    for stage in DISTANCES:
        known = [(title_of(shelf, model), each) for model in models if (each := ours_at(shelf, model, stage))]
        if left := [f"{title} {each.unturned}" for title, each in known if each.unturned]:
            told.append(f"{TITLES[stage]} ({listed(left)})")
    return f" C&W's search got caught too often for its distances to be compared in {listed(told)}." if told else ""


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


def _told(shelf: Shelf, scene: Scene, moved: dict[str, Moved]) -> str:
    names = [title_of(shelf, model) for model in (scene.mmc, scene.sce)]
    told = [
        f"{way} {names[0]} {each.ours:.1f} %, {names[1]} {each.theirs:.1f} % "
        f"(from {listed([title_of(shelf, source) for source in each.sources])})"
        for way, each in moved.items()
    ]
    return "; ".join(told) or "not run"
