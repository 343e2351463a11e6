"""How well the two long adversarial trainings were done: no verdict for or against MMC from one that was not."""

from maxmahal.report.wording import listed, points
from paper.pages.judging import POINT
from paper.pages.models import LONG, SHORT
from paper.pages.shelf import Shelf
from paper.pages.undertrained import RISING, rise

FAIR_CLEAN, FAIR_PGD = 76.0, 41.0
"""Percent that a finished training reaches on this network, clean and under PGD-50 on true labels."""
ASKED = f"clean at least {FAIR_CLEAN:g} % and PGD-50 at least {FAIR_PGD:g} %"
PAPERS_EPOCHS = 200
_SCE, _MMC = LONG
_TITLES = {_SCE: "AT (SCE)", _MMC: "AT (MMC-10)"}


def why_unfair(shelf: Shelf) -> str:
    """Why AT (SCE) of the long budget cannot be compared with yet, as a sentence; empty where it can."""
    reached = _reached(shelf, _SCE)
    if reached is None:
        return f"Whether the long AT (SCE) is a fair baseline ({ASKED}, on true labels) has not been measured."
    if _shortfall(*reached) > 0 and not _makes_up(*reached):
        return f"The long AT (SCE) is not yet a fair baseline: {_told(*reached)}, and {ASKED} are asked for."
    return ""


def is_short_of_it(shelf: Shelf) -> bool:
    """Whether MMC's own training misses what is asked of the baseline, with the same tolerance, or is not known."""
    reached = _reached(shelf, _MMC)
    return reached is None or (_shortfall(*reached) > 0 and not _makes_up(*reached))


def baseline(shelf: Shelf) -> str:
    """How fair it is to compare with the long AT (SCE), as sentences."""
    reached = _reached(shelf, _SCE)
    if (unfair := why_unfair(shelf)) or reached is None:
        return unfair
    if not _shortfall(*reached):
        return f"The long AT (SCE) is a fair baseline: {_told(*reached)}, where {ASKED} are asked for."
    return (
        f"The long AT (SCE) is counted as a fair baseline: {_told(*reached)}, where {ASKED} are asked for. It misses "
        "one of them by less than a point and is above the other by more than that. This tolerance was set after the "
        "baseline had been measured; without it the verdict would be *not measured*."
    )


def own_training(shelf: Shelf) -> str:
    """What the same floor says of AT (MMC-10), how far both are from the paper, and whether they had settled."""
    reached = _reached(shelf, _MMC)
    if reached is None:
        told = f"Whether AT (MMC-10) itself comes up to that ({ASKED}) has not been measured."
    else:
        word = "misses it" if is_short_of_it(shelf) else "comes up to it"
        told = f"By the same measure AT (MMC-10) itself {word}: {_told(*reached)}."
    return " ".join(part for part in (told, _apart(shelf), _epochs(shelf), _rising(shelf)) if part)


def _reached(shelf: Shelf, model: str) -> tuple[float, float] | None:
    """Clean accuracy, and that under PGD-50 away from the true label: from images that are right before it."""
    clean, pgd = shelf.clean(model), shelf.kept(model, "pgd50-un-8")
    return None if clean is None or pgd is None else (clean.value, 100 * pgd.value)


def _told(clean: float, pgd: float) -> str:
    return f"clean {clean:.1f} %, PGD-50 on true labels {pgd:.1f} %"


def _shortfall(clean: float, pgd: float) -> float:
    """Percent that are missing from what is asked for."""
    return max(FAIR_CLEAN - clean, 0.0) + max(FAIR_PGD - pgd, 0.0)


def _makes_up(clean: float, pgd: float) -> bool:
    """Whether a small lack of one is outweighed by the other."""
    return _shortfall(clean, pgd) < POINT and clean - FAIR_CLEAN + pgd - FAIR_PGD > 0


def _apart(shelf: Shelf) -> str:
    gaps = []
    for model in LONG:
        ours, printed = shelf.clean(model), shelf.paper(model, "clean")
        if ours is not None and printed:
            gaps.append(f"{_TITLES[model]} is {points((ours.value - printed[0].value) / 100)} points")
    return f"From the paper's accuracy on clean images {listed(gaps)} away." if gaps else ""


def _epochs(shelf: Shelf) -> str:
    trained = {len(run.epochs) for model in LONG if (run := shelf.run(model)) is not None}
    if not trained or min(trained) >= PAPERS_EPOCHS:
        return ""
    return f"{min(trained)} epochs stand for the paper's {PAPERS_EPOCHS}."


def _rising(shelf: Shelf) -> str:
    """Which of the trainings still gained on clean images over the last tenth of their epochs."""
    found = []
    for words, bases in (("short", SHORT), ("long", LONG)):
        for title, base in zip(_TITLES.values(), bases, strict=True):
            rises = [each[0] for name in shelf.seeds(base) if (each := rise(shelf.run(name))) is not None]
            mean = sum(rises) / len(rises) if rises else 0.0
            if mean > RISING:
                found.append(f"{title}, {words} ({points(mean / 100)} points)")
    if not found:
        return ""
    return (
        "Over the last tenth of the epochs, the learning rate falling to nothing, the accuracy on clean test images "
        f"was still rising with {listed(found)}: longer training could change the comparison."
    )
