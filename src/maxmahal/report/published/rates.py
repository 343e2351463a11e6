"""Learning rates that differ between trainings which are compared: what a difference is then not known to come from."""

import re

from maxmahal.evaluate.summary import RunSummary, pair_up
from maxmahal.report.published.hierarchical import TREES
from maxmahal.report.published.judging import bounded
from maxmahal.report.published.leads import of_images
from maxmahal.report.published.models import ADVERSARIAL_CIFAR100, title_of
from maxmahal.report.published.shelf import STRONG, Shelf
from maxmahal.report.published.trainings import chosen_by, learning_rate, outdone
from maxmahal.report.wording import listed

_, _MMC, _HM = ADVERSARIAL_CIFAR100
_SCANNED = "trees-at-"  # how the names of adversarial trainings begin that compare centers alone
_OTHER = re.compile(r"-lr[\d.]+$")  # how the names of models end that were trained like another but for the rate
_GRID = "adversarial-cifar100-rates"


def same_rate(shelf: Shelf, *models: str) -> bool:
    """Whether these were trained at one learning rate, as far as anybody wrote it down."""
    known = [rate for model in models if (rate := _rate(shelf, model)) is not None]
    return len(set(known)) < 2


def rates_note(shelf: Shelf, folder: str = "") -> str:
    """That the losses were not trained at one rate, what their trials chose, and what equal rates say; else empty."""
    if same_rate(shelf, *ADVERSARIAL_CIFAR100):
        return ""
    by_rate: dict[float, list[str]] = {}
    for model in ADVERSARIAL_CIFAR100:
        rate = _rate(shelf, model)
        if rate is not None:
            by_rate.setdefault(rate, []).append(title_of(shelf, model))
    told = [f"{listed(names)} at {rate:g}" for rate, names in by_rate.items()]
    parts = [
        f"Learning rates: {', '.join(told)}; across these, centers (or losses) and rate are not told apart.",
        *(_outdone(shelf, model) for model in ADVERSARIAL_CIFAR100),
        _alike(shelf, folder),
    ]
    return " ".join(part for part in parts if part)


def other_rates(shelf: Shelf) -> str:
    """What another learning rate makes of a loss, by AutoAttack on the same images; empty where none was attacked."""
    names = sorted({each.name for each in shelf.evaluations if _OTHER.search(each.name)})
    told, seen = [], set()
    for name in names:
        model = _OTHER.sub("", name)
        pair, rates = shelf.pair(name, model, STRONG[0]), (_rate(shelf, name), _rate(shelf, model))
        if model in ADVERSARIAL_CIFAR100 and pair is not None and None not in rates:
            found = pair_up(*pair)
            size = bounded(found, of_images(found).interval(0.95), found.p_value)
            told.append(f"{title_of(shelf, model)} at {rates[0]:g} less itself at {rates[1]:g} is {size}")
            seen.add(model)
    if not told:
        return ""
    head = f"What another learning rate makes of a loss, by AutoAttack: {'; '.join(told)}."
    left = [title_of(shelf, model) for model in ADVERSARIAL_CIFAR100 if model not in seen]
    if not left:
        return head
    return f"{head} Of {listed(left)} another rate was not attacked (`maxmahal reproduce {_GRID}`)."


def _rate(shelf: Shelf, model: str) -> float | None:
    rate = shelf.settings(model).get("train", {}).get("lr")
    return None if rate is None else float(rate)


def _outdone(shelf: Shelf, model: str) -> str:
    """That another trial is the best by the rule, with the scores of both; empty where the best one was taken."""
    run = shelf.run(model)
    found = None if run is None else outdone(shelf, run)
    if found is None:
        return ""
    took, best = found
    return (
        f"For {title_of(shelf, model)} the rule for trials (PGD-10 on held-out images, ties by their accuracy) chooses "
        f"{learning_rate(best):g} ({chosen_by(best)} against {chosen_by(took)}), which was not taken."
    )


def _alike(shelf: Shelf, folder: str) -> str:
    """What trainings at one rate say of the centers of these two models; empty where there are none."""
    ours, theirs = ([run for run in _scanned(shelf) if _centers(run) == wanted] for wanted in _wanted(shelf))
    pair = next(((a, b) for a in ours for b in theirs if a.settings.get("train") == b.settings.get("train")), None)
    if pair is None or not all(_ended(run) for run in pair):
        return ""
    (pgd, clean), (other_pgd, other_clean) = (_ended(run) for run in pair)
    return (
        f"Trained alike, for {len(pair[0].epochs)} epochs at {learning_rate(pair[0]):g} and one seed each, AT on the "
        f"same hierarchical centers ends at {pgd:.1f} % under PGD-10 on held-out images and {clean:.1f} % on clean "
        f"test images, AT on MMC's at {other_pgd:.1f} and {other_clean:.1f} % ([class trees]({folder}{TREES}))."
    )


def _scanned(shelf: Shelf) -> list[RunSummary]:
    return [run for run in shelf.runs if run.name.startswith(_SCANNED) and run.finished]


def _wanted(shelf: Shelf) -> list[object]:
    return [shelf.settings(model).get("centers") or model for model in (_HM, _MMC)]


def _centers(run: RunSummary) -> object:
    return run.settings.get("centers")


def _ended(run: RunSummary) -> list[float]:
    """Percent right after the last epoch: held-out images under PGD-10, clean test images."""
    last = run.epochs[-1] if run.epochs else {}
    found = [last.get(key) for key in ("validation_pgd10", "test_accuracy")]
    known = [100 * each for each in found if isinstance(each, float)]
    return known if len(known) == len(found) else []
