"""Verdicts on the paper's claims from numbers alone: one function a claim. The central one is in ``adversarial.py``."""

from collections.abc import Sequence

from maxmahal.report.published.judging import (
    POINT,
    Judgement,
    Verdict,
    counted,
    evidence,
    leads,
    ours_at,
    strong_standing,
)
from maxmahal.report.published.models import (
    ADVERSARIAL,
    DISTANCES,
    OTHER_LOSSES,
    PGD_8,
    PGD_16,
    SPSA,
    title_of,
)
from maxmahal.report.published.shelf import Shelf, ours_text, paper_text
from maxmahal.report.published.tables import is_transfer, markdown

GUESSING = 10.0  # percent, with ten classes
NEAR = 5.0  # points below the paper's number that still count as reproducing it
_SCE, _MMC, _RANDOM = "cifar10-sce", "cifar10-mmc", "cifar10-mmc-rand"
_SIZES = ("", "-4096", "-8192")


def reliable(shelf: Shelf) -> Judgement:
    """Holds if the worst case comes near the paper's lowest number at 8/255; not, if it is below guessing."""
    shown = evidence(shelf, (_SCE, _MMC), PGD_8)
    worst = shelf.strongest(_MMC)
    printed = [number.value for stage in PGD_8 for number in shelf.paper(_MMC, stage)]
    if worst is None or worst.rate is None or not printed:
        return Judgement("not measured", "Neither strict nor AutoAttack was run on MMC-10.", shown)
    low, high = (100 * end for end in worst.rate.interval)
    verdict: Verdict = "holds in part"
    if high < GUESSING:
        verdict = "does not hold"
    elif low >= min(printed) - NEAR:
        verdict = "holds"
    reason = f"The worst case of MMC-10 is {worst.full}; the paper's lowest number at this epsilon is {min(printed)}."
    return Judgement(verdict, reason, shown)


def clean(shelf: Shelf) -> Judgement:
    """Holds within one point of SCE, in part within two; means over the training seeds."""
    shown = evidence(shelf, (_SCE, _MMC), ("clean",), strong=False) + _seeds(shelf, (_SCE, _MMC))
    means = [_mean_clean(shelf, base) for base in (_SCE, _MMC)]
    if means[0] is None or means[1] is None:
        return Judgement("not measured", "SCE and MMC-10 have not both been evaluated.", shown)
    gap = means[1] - means[0]
    verdict: Verdict = "holds" if gap >= -POINT else "holds in part" if gap >= -2 * POINT else "does not hold"
    return Judgement(verdict, f"MMC-10 is {gap:+.1f} points from SCE on clean images (mean over seeds).", shown)


def white_box(shelf: Shelf) -> Judgement:
    """Holds if MMC leads in every column and at worst; in part if it leads under the paper's attacks alone."""
    return _lead_and_strong(shelf, _MMC, OTHER_LOSSES, (*PGD_8, *PGD_16), "the other losses")


def centers(shelf: Shelf) -> Judgement:
    """Holds if the optimal centers lead in every column and at worst; in part if under the paper's attacks alone."""
    return _lead_and_strong(shelf, _MMC, (_RANDOM,), (*PGD_8, *PGD_16), "random centers")


def threats(shelf: Shelf) -> Judgement:
    """Holds if MMC leads under every such attack, in part if under some."""
    stages = (*DISTANCES, *SPSA)
    found = leads(shelf, _MMC, OTHER_LOSSES, stages)
    shown = evidence(shelf, (*OTHER_LOSSES, _MMC), stages, strong=False)
    moved = {model: _transfer(shelf, model) for model in (_SCE, _MMC)}
    told = ", ".join(f"{title_of(shelf, model)} {_percent(value)}" for model, value in moved.items())
    shown += f"\n\nTransfer (Figure 4), mean accuracy over images crafted on other models: {told}."
    ahead = [lead.ahead for lead in found]
    ours, theirs = moved[_MMC], moved[_SCE]
    if ours is not None and theirs is not None:
        ahead.append(ours > theirs)
    reason = f"MMC-10 leads in {sum(ahead)} of {len(ahead)} columns, transfer {'included' if ours else 'not run'}."
    return Judgement(_share(ahead), reason if ahead else "None of these attacks was run.", shown)


def spsa(shelf: Shelf) -> Judgement:
    """Holds if the accuracy falls with the batch to within five points of PGD-10; in part if it only falls."""
    body, falls, gaps = [], [], []
    for mode in ("un", "tar"):
        pgd = ours_at(shelf, _MMC, f"pgd10-{mode}-8")
        sizes = [shelf.stage(_MMC, f"spsa-{mode}-8{size}", ("spsa-sizes", "paper-table2", "paper")) for size in _SIZES]
        printed = [paper_text(shelf.paper(_MMC, f"spsa-{mode}-8{size}", "Table 3")) for size in _SIZES]
        for size, paper, ours in zip(_SIZES, printed, sizes, strict=True):
            body.append([f"SPSA {mode}, batch {size.lstrip('-') or '128'}", paper, ours_text(ours)])
        body.append([f"PGD-10 {mode}", paper_text(shelf.paper(_MMC, f"pgd10-{mode}-8", "Table 1")), ours_text(pgd)])
        if pgd is not None and all(each is not None for each in sizes):
            values = [each.value for each in sizes if each is not None]
            falls.append(values[0] > values[1] >= values[2])
            gaps.append(values[2] - pgd.value)
    shown = markdown(["MMC-10 at 8/256", "paper", "ours"], body)
    if not falls:
        reason = "SPSA with three sizes of batches and PGD-10 have not all been run on MMC-10."
        return Judgement("not measured", reason, shown)
    near = all(abs(gap) <= NEAR for gap in gaps)
    verdict: Verdict = "holds" if all(falls) and near else "holds in part" if all(falls) else "does not hold"
    left = ", ".join(f"{gap:+.1f}" for gap in gaps)
    return Judgement(verdict, f"At the largest batch SPSA is {left} points from PGD-10 (un, tar).", shown)


def capacity(shelf: Shelf) -> Judgement:
    """Holds if the deep MMC is ahead of the shallow one in every column and at worst, and SCE gains no point."""
    deep_mmc, deep_sce = f"{_MMC}-resnet110", f"{_SCE}-resnet110"
    judged = _lead_and_strong(shelf, deep_mmc, (_MMC,), (*PGD_8, *PGD_16), "the shallow network")
    shown = evidence(shelf, (_SCE, deep_sce, _MMC, deep_mmc), (*PGD_8, *PGD_16))
    sce = [lead.ours - lead.best_other for lead in leads(shelf, deep_sce, (_SCE,), PGD_8)]
    if judged.verdict == "holds" and (not sce or max(sce) > POINT):
        told = f"SCE gains up to {max(sce):.1f} points as well" if sce else "SCE was not measured at both depths"
        return Judgement("holds in part", f"{judged.reason} But {told}.", shown)
    return Judgement(judged.verdict, judged.reason, shown)


def beyond(shelf: Shelf) -> Judgement:
    """Holds if MMC leads in every column at 16/256 for both kinds of adversarial training, in part if in some."""
    pairs = (ADVERSARIAL[:2], ADVERSARIAL[2:])
    shown = evidence(shelf, ADVERSARIAL, PGD_16, strong=False)
    found = [lead for sce, mmc in pairs for lead in leads(shelf, mmc, (sce,), PGD_16)]
    reason = f"AT (MMC-10) leads in {counted(found)} at 16/256." if found else "No such pair was evaluated."
    return Judgement(_share([lead.ahead for lead in found]), reason, shown)


def rotation(shelf: Shelf) -> Judgement:
    """Holds if MMC is no worse than SCE and every adversarially trained model is worse; in part if one of the two."""
    shown = evidence(shelf, (_SCE, _MMC, *ADVERSARIAL), ("clean", "noise", "rotation"), strong=False)
    sce, mmc = (ours_at(shelf, model, "rotation") for model in (_SCE, _MMC))
    trained = [each.value for model in ADVERSARIAL if (each := ours_at(shelf, model, "rotation")) is not None]
    if sce is None or mmc is None or not trained:
        return Judgement("not measured", "Rotations were not run on SCE, MMC-10 and an AT model.", shown)
    checks = [mmc.value >= sce.value - POINT, max(trained) < mmc.value - POINT]
    reason = (
        f"MMC-10 is {mmc.value - sce.value:+.1f} points from SCE on rotated images, and the best adversarially "
        f"trained model {max(trained) - mmc.value:+.1f} points from MMC-10."
    )
    return Judgement(_share(checks), reason, shown)


def _lead_and_strong(shelf: Shelf, model: str, others: Sequence[str], stages: Sequence[str], whom: str) -> Judgement:
    shown = evidence(shelf, (*others, model), stages)
    found = leads(shelf, model, others, stages)
    if not found:
        return Judgement("not measured", f"{title_of(shelf, model)} was not evaluated beside {whom}.", shown)
    ahead, at_worst = sum(lead.ahead for lead in found), strong_standing(shelf, model, others)
    told = {None: "was not measured", "ahead": "it is ahead too", "tied": "nobody is ahead", "behind": "it is behind"}
    reason = (
        f"Under the paper's attacks {title_of(shelf, model)} is ahead of {whom} in {counted(found)}; "
        f"at worst (AutoAttack, else strict) {told[at_worst]}."
    )
    if ahead == len(found) and at_worst == "ahead":
        return Judgement("holds", reason, shown)
    verdict: Verdict = "holds in part" if ahead or at_worst == "ahead" else "does not hold"
    return Judgement(verdict, reason, shown)


def _share(checks: Sequence[bool]) -> Verdict:
    if not checks:
        return "not measured"
    return "holds" if all(checks) else "holds in part" if any(checks) else "does not hold"


def _seeds(shelf: Shelf, bases: Sequence[str]) -> str:
    """The models of other training seeds, where there are any."""
    twins = [name for base in bases for name in shelf.seeds(base)[1:]]
    return f"\n\nOther training seeds: {', '.join(f'{n} {ours_text(shelf.clean(n))}' for n in twins)}." if twins else ""


def _mean_clean(shelf: Shelf, base: str) -> float | None:
    values = [each.value for model in shelf.seeds(base) if (each := shelf.clean(model)) is not None]
    return sum(values) / len(values) if values else None


def _transfer(shelf: Shelf, model: str) -> float | None:
    values = [
        100 * stage.accuracy.value
        for each in shelf.evaluations
        for stage in each.stages
        if each.name == model and is_transfer(stage) and stage.source != model and stage.accuracy is not None
    ]
    return sum(values) / len(values) if values else None


def _percent(value: float | None) -> str:
    return "not run" if value is None else f"{value:.1f} %"
