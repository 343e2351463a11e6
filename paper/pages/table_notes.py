"""What a reader of a table with C&W and SPSA has to know, from the records of just these models."""

from collections.abc import Sequence

from maxmahal.report.wording import listed
from paper.pages.judging import ours_at
from paper.pages.models import DISTANCES, TITLES, title_of
from paper.pages.shelf import PROTOCOL, Shelf

_DISTANCE = (
    "C&W: mean L2 distance of the images it turned from right to wrong; comparable only where nearly all were turned."
)
_STOPPED = (
    "Nothing bounds this attack, so images that it did not turn are ones where its search got caught, and a mean "
    "without them is no sign of robustness."
)
_PGD, _SPSA = "pgd10-un-8", "spsa-un-8"


def threats_note(shelf: Shelf, models: Sequence[str], stages: Sequence[str]) -> str:
    """How to read the columns of C&W and SPSA: the mean, the images, and why PGD may be above SPSA."""
    return " ".join(
        part for part in (_distance(shelf, models), _first(shelf, models, stages), _above(shelf, models)) if part
    )


def _distance(shelf: Shelf, models: Sequence[str]) -> str:
    known = [each for model in models for stage in DISTANCES if (each := ours_at(shelf, model, stage)) is not None]
    return f"{_DISTANCE} {_STOPPED}" if any(each.unturned for each in known) else _DISTANCE


def _first(shelf: Shelf, models: Sequence[str], stages: Sequence[str]) -> str:
    """Which attacks took only the first of the images that the others took."""
    found: dict[str, set[int]] = {}
    for each in shelf.evaluations:
        if each.name in models and each.suite in PROTOCOL:
            seen = [stage for name in stages if (stage := each.stage(name)) is not None and not stage.skipped]
            for stage in seen:
                if stage.samples < each.samples:
                    found.setdefault(TITLES[stage.name].partition(" ")[0], set()).add(stage.samples)
    told = [f"{kind} on the first {' or '.join(f'{n:,}' for n in sorted(sizes))}" for kind, sizes in found.items()]
    return f"Not on all images: {listed(told)}." if told else ""


def _above(shelf: Shelf, models: Sequence[str]) -> str:
    """Why an attack with gradients may leave more than one without: it flees another class, and this is counted."""
    for model in models:
        pgd, spsa, kept = shelf.stage(model, _PGD), shelf.stage(model, _SPSA), shelf.kept(model, _PGD)
        if pgd is None or spsa is None or kept is None or pgd.value <= spsa.value:
            continue
        return (
            "PGD un may be above SPSA un: PGD flees the model's own prediction, which turns some wrong images right, "
            f"and the paper's protocol counts these; SPSA flees the true label. Of the {pgd.value:.1f} % of "
            f"{title_of(shelf, model)} under {TITLES[_PGD]}, {100 * kept.value:.1f} were right before."
        )
    return ""
