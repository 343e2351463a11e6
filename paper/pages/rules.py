"""Verdicts on the paper's claims from numbers alone: one function a claim. Others are in the files beside this one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from maxmahal.report.wording import listed, points
from paper.pages.apart import NEAR, weaker
from paper.pages.baseline import is_short_of_it
from paper.pages.both import Scene, on_both
from paper.pages.judging import (
    POINT,
    Judgement,
    Verdict,
    beside,
    evidence,
    nothing_stands,
    ours_at,
    share,
    strong_standing,
)
from paper.pages.leads import (
    Lead,
    columns,
    counted,
    judge,
    leads,
    leads_table,
    over_kinds,
    state_of,
)
from paper.pages.models import ADVERSARIAL, PGD_8, PGD_16, title_of
from paper.pages.needs import Needs, grid, settle
from paper.pages.shelf import STRONG, Shelf

TRUSTED = {"held", "mended"}  # somebody looked for false robustness, and none is left unanswered
_PGD = (*PGD_8, *PGD_16)
_SCE, _MMC = "cifar10-sce", "cifar10-mmc"


def reliable(shelf: Shelf) -> Judgement:
    """Holds if the worst case over strict and AutoAttack comes near the paper's lowest number at 8/255 and no sign of
    false robustness is left open; in part if its interval is above guessing. On CIFAR-100 too, where it was measured.
    """
    return on_both(shelf, _reliable)


def _reliable(shelf: Shelf, scene: Scene) -> Judgement:
    shown = evidence(shelf, (scene.sce, scene.mmc), PGD_8)
    worst = shelf.strongest(scene.mmc)
    printed = [number.value for stage in PGD_8 for number in shelf.paper(scene.mmc, stage)]
    if worst is None or worst.rate is None:
        return Judgement("not measured", "Neither strict nor AutoAttack was run on MMC-10.", shown)
    if not printed:
        return Judgement("not measured", "The paper prints no number at this epsilon to compare with.", shown)
    low = 100 * worst.rate.interval[0]
    trusts = {found.trust for suite in STRONG if (found := shelf.find(scene.mmc, suite)) is not None}
    # AutoAttack looks for no signs, so that strict answers for both.
    trusted = bool(trusts & TRUSTED) and trusts <= {*TRUSTED, "unchecked"}
    reason = f"The worst case of MMC-10 is {worst.full}; the paper's lowest number at this epsilon is {min(printed)}."
    verdict: Verdict = "holds in part" if low > scene.guessing else "does not hold"
    if verdict == "holds in part" and low >= min(printed) - NEAR:
        verdict = "holds" if trusted else "holds in part"
        reason += "" if trusted else " Signs of false robustness are open, or nobody looked for any."
    return settle(verdict, reason, shown, Needs(suites=grid((scene.mmc,), STRONG)).missing(shelf))


def white_box(shelf: Shelf) -> Judgement:
    """Holds if MMC leads in every column and at worst; in part if it leads under all of the paper's attacks alone.

    In part at best where one of the other losses keeps five points less in some column than the paper prints for it.
    Does not hold if a lead is ruled out in any column; undecided otherwise. On CIFAR-100 too, where it was measured, in
    the columns that the paper's Table 4 has.
    """
    return on_both(shelf, _white_box)


def _white_box(shelf: Shelf, scene: Scene) -> Judgement:
    judged = _lead_and_strong(shelf, scene.mmc, scene.others, "the other losses", scene.columns)
    if not (weak := weaker(shelf, scene.others, scene.columns)):
        return judged
    told = f" A lead over these is one over models that keep less here than in the paper: {'; '.join(weak)}."
    verdict: Verdict = "holds in part" if judged.verdict == "holds" else judged.verdict
    return replace(judged, verdict=verdict, reason=judged.reason + told)


def capacity(shelf: Shelf) -> Judgement:
    """Holds if the deep MMC leads over the shallow one in every column and at worst, and the deep SCE leads in none.

    In part if the deep MMC leads in every column, but not at worst or not alone. Does not hold if its lead is ruled out
    in any column; undecided otherwise. On CIFAR-100 too, where it was measured.
    """
    return on_both(shelf, _capacity)


def _capacity(shelf: Shelf, scene: Scene) -> Judgement:
    deep_mmc, deep_sce = f"{scene.mmc}-resnet110", f"{scene.sce}-resnet110"
    judged = _lead_and_strong(shelf, deep_mmc, (scene.mmc,), "the shallow network")
    shown = _with_leads(
        evidence(shelf, (scene.sce, deep_sce, scene.mmc, deep_mmc), _PGD), leads(shelf, deep_mmc, (scene.mmc,), _PGD)
    )
    if judged.verdict == "not measured":
        return Judgement(judged.verdict, judged.reason, shown)
    verdict, reason = judged.verdict, judged.reason + _printed(shelf, deep_mmc, scene.mmc)
    gained = [lead for lead in leads(shelf, deep_sce, (scene.sce,), _PGD) if _may_gain(lead)]
    if gained:
        verdict = "holds in part" if verdict == "holds" else verdict
        reason += f" SCE gains as well, or may do, in {len(gained)} columns."
    elif others := leads(shelf, deep_sce, (scene.sce,), _PGD):
        reason += f" A gain of SCE is ruled out in {len(others)} of {len(_PGD)} columns."
    return settle(verdict, reason, shown, Needs(grid((scene.sce, deep_sce), _PGD)).missing(shelf))


def beyond(shelf: Shelf) -> Judgement:
    """Holds if MMC leads in every column at 16/256 for both kinds of adversarial training, in part if for one kind.

    Does not hold if for each kind that was measured a lead is ruled out in some column; undecided otherwise, and also
    in place of that where MMC's own training misses what is asked of the baseline.
    """
    kinds = {"tar": ADVERSARIAL[:2], "un": ADVERSARIAL[2:]}
    pairs = [columns(shelf, mmc, (sce,), PGD_16, f", AT {kind}") for kind, (sce, mmc) in kinds.items()]
    found = judge({title: gaps for pair in pairs for title, gaps in pair.items()})
    shown = _with_leads(evidence(shelf, ADVERSARIAL, PGD_16, strong=False), found)
    if not found:
        return Judgement("not measured", "No such pair was evaluated.", shown)
    verdict = over_kinds([[lead for lead in found if lead.title in pair] for pair in pairs])
    reason = f"AT (MMC-10) leads in {counted(found)} at 16/256."
    if verdict == "does not hold" and is_short_of_it(shelf):
        verdict = "undecided"
        reason += " It is undecided as the long AT (MMC-10) was trained too little by the measure of the baseline."
    return settle(verdict, reason, shown, Needs(grid(ADVERSARIAL, PGD_16)).missing(shelf))


def rotation(shelf: Shelf) -> Judgement:
    """Holds if MMC is no worse than SCE and every adversarially trained model is worse; in part if one of the two."""
    shown = evidence(shelf, (_SCE, _MMC, *ADVERSARIAL), ("clean", "noise", "rotation"), strong=False)
    sce, mmc = (ours_at(shelf, model, "rotation") for model in (_SCE, _MMC))
    trained = [each.value for model in ADVERSARIAL if (each := ours_at(shelf, model, "rotation")) is not None]
    if sce is None or mmc is None or not trained:
        return Judgement("not measured", "Rotations were not run on SCE, MMC-10 and an AT model.", shown)
    checks = [mmc.value >= sce.value - POINT, max(trained) < mmc.value - POINT]
    reason = (
        f"MMC-10 is {points((mmc.value - sce.value) / 100)} points from SCE on rotated images, and the best "
        f"adversarially trained model {points((max(trained) - mmc.value) / 100)} points from MMC-10."
    )
    return settle(share(checks), reason, shown, Needs(grid(ADVERSARIAL, ("rotation",))).missing(shelf))


def _lead_and_strong(
    shelf: Shelf, model: str, others: Sequence[str], whom: str, stages: Sequence[str] = _PGD
) -> Judgement:
    found = leads(shelf, model, others, stages)
    shown = _with_leads(evidence(shelf, (*others, model), stages), found)
    if not found:
        return Judgement("not measured", f"{title_of(shelf, model)} was not evaluated beside {whom}.", shown)
    state, at_worst = state_of(found), strong_standing(shelf, model, others)
    reason = (
        f"Under the paper's attacks {title_of(shelf, model)} leads over {_whom(shelf, others, whom, stages)} in "
        f"{counted(found)}; at worst (AutoAttack, else strict) {_at_worst(shelf, model, others, at_worst)}."
    )
    needs = Needs(grid((*others, model), stages), pairs=tuple((model, other) for other in others))
    verdict: Verdict = "does not hold" if state == "no lead" else "undecided"
    if state == "ahead":
        verdict = "holds" if at_worst == "ahead" else "holds in part"
    return settle(verdict, reason, shown, needs.missing(shelf))


def _whom(shelf: Shelf, others: Sequence[str], whom: str, stages: Sequence[str]) -> str:
    """The words for all of the others, or the names of those that have a number where some have none."""
    known = [other for other in others if any(ours_at(shelf, other, stage) is not None for stage in stages)]
    if len(known) == len(others):
        return whom
    return f"{listed([title_of(shelf, other) for other in known])} ({len(known)} of {len(others)} of {whom})"


def _at_worst(shelf: Shelf, model: str, others: Sequence[str], found: Literal["ahead", "tied", "behind"] | None) -> str:
    """Where the model stands beside those of the others that can be compared with it, which are named."""
    seen = [other for other in others if beside(shelf, model, other) is not None]
    if found is None or not seen:
        return "nothing was measured"
    names = [title_of(shelf, each) for each in (*seen, model)]
    if found == "tied" and nothing_stands(shelf, (*seen, model)):
        return f"nothing is left of {listed(names)}, so that they cannot be told apart at this epsilon"
    told = {"ahead": "it is ahead", "tied": "nobody is ahead", "behind": "it is behind"}[found]
    return told if len(seen) == len(others) else f"{told} among {listed(names)}"


def _with_leads(shown: str, found: Sequence[Lead]) -> str:
    return f"{shown}\n\n{leads_table(found)}" if found else shown


def _may_gain(lead: Lead) -> bool:
    """A lead, or one that is not ruled out: a claim that somebody gains nothing needs that."""
    return lead.state in ("ahead", "open", "not tested")


def _printed(shelf: Shelf, model: str, other: str) -> str:
    """That the paper's own numbers do not have a model ahead everywhere, as a sentence; empty where they do."""
    pairs = [(shelf.paper(model, stage), shelf.paper(other, stage)) for stage in _PGD]
    ahead = [ours[0].value > theirs[0].value for ours, theirs in pairs if ours and theirs]
    if all(ahead):
        return ""
    return f" The paper's own numbers have {title_of(shelf, model)} ahead in {sum(ahead)} of {len(ahead)} columns."
