"""Learning rates that differ between trainings which are compared: what a difference is then not known to come from."""

from maxmahal.report.wording import listed
from paper import reproduce
from paper.pages.hierarchical import TREES
from paper.pages.judging import ALPHA, bounded, standing
from paper.pages.leads import holm, of_images
from paper.pages.models import ADVERSARIAL_CIFAR100, title_of
from paper.pages.shelf import OTHER_RATE, STRONG, Shelf
from paper.pages.trainings import chosen_by, learning_rate, outdone, trial_of
from paper.summaries import RunSummary, Summary, pair_up

_, _MMC, _HM = ADVERSARIAL_CIFAR100
_SCANNED = "trees-at-"  # how the names of adversarial trainings begin that compare centers alone
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
    found = {name: pair_up(*pair) for name, pair in _other_pairs(shelf).items()}
    if not found:
        return ""
    chances, confidence = holm({name: pair.p_value for name, pair in found.items()}), 1 - ALPHA / len(found)
    told = [
        f"{title_of(shelf, _own(name))} at {_rate(shelf, name):g} less itself at {_rate(shelf, _own(name)):g} is "
        f"{bounded(pair, of_images(pair).interval(confidence), chances[name])}"
        for name, pair in found.items()
    ]
    many = f", p and intervals for these {len(found)} together" if len(found) > 1 else ""
    parts = [f"What another learning rate makes of a loss, by AutoAttack{many}: {'; '.join(told)}."]
    parts += [trial for name in found if (trial := _trials(shelf, name))]
    if left := [title_of(shelf, model) for model in ADVERSARIAL_CIFAR100 if model not in map(_own, found)]:
        told_of = f"no other rate was attacked on the same images ({reproduce(_GRID)})"
        parts.append(f"Of {listed(left)} {told_of}, so that a comparison with these is one of rates too.")
    return " ".join(parts)


def better_slower(shelf: Shelf, model: str) -> bool:
    """Whether a model did better at a lower rate than its own, by AutoAttack on the same images."""
    own = _rate(shelf, model)
    lower = [pair for name, pair in _other_pairs(shelf).items() if _own(name) == model and _slower(shelf, name, own)]
    return any(standing(pair_up(*pair)) == "ahead" for pair in lower)


def _slower(shelf: Shelf, name: str, own: float | None) -> bool:
    rate = _rate(shelf, name)
    return rate is not None and own is not None and rate < own


def _trials(shelf: Shelf, name: str) -> str:
    """How far the trials of the two rates were apart that chose between them; empty where one of them is not known."""
    runs = [run for each in (name, _own(name)) if (run := shelf.run(each)) is not None]
    tried = [trial for run in runs if (trial := trial_of(shelf, run)) is not None]
    if len(tried) < 2:
        return ""
    scores = [f"{chosen_by(trial)} at {learning_rate(trial):g}" for trial in tried]
    return (
        f"The trials that chose between them, of {len(tried[0].epochs)} epochs, had under PGD-10 and clean on held-out "
        f"images {listed(scores)} (%)."
    )


def _other_pairs(shelf: Shelf) -> dict[str, tuple[Summary, Summary]]:
    """By the name of the model at the other rate: its evaluation, and that of the same loss as its trials chose."""
    names = sorted({each.name for each in shelf.evaluations if OTHER_RATE.search(each.name)})
    known = [name for name in names if _own(name) in ADVERSARIAL_CIFAR100 and _is_other(shelf, name, _own(name))]
    return {name: pair for name in known if (pair := shelf.pair(name, _own(name), STRONG[0])) is not None}


def _own(name: str) -> str:
    return OTHER_RATE.sub("", name)


def _is_other(shelf: Shelf, name: str, model: str) -> bool:
    """Whether two were trained alike but for the rate, which is not the same."""
    ours, theirs = ({**shelf.settings(each).get("train", {})} for each in (name, model))
    rates = ours.pop("lr", None), theirs.pop("lr", None)
    return ours == theirs and None not in rates and rates[0] != rates[1]


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
