"""Whether an adversarial training came to its end: what it still gained at last, and how far its loss came."""

import math
from collections.abc import Sequence

from maxmahal.data.registry import SOURCES
from maxmahal.errors import MaxmahalError
from maxmahal.report.wording import listed, points
from maxmahal.settings import from_table
from maxmahal.train import Settings, preset_centers
from paper.pages.models import title_of
from paper.pages.rates import better_slower
from paper.pages.shelf import Shelf
from paper.pages.trainings import rate_edge
from paper.summaries import RunSummary

RISING = 0.5  # points on clean images over the last tenth of the epochs: what rises by more is not at its end


def rise(run: RunSummary | None) -> tuple[float, int] | None:
    """How many points the accuracy on clean test images gained over the last tenth of the epochs, and since which."""
    entries = [] if run is None else [entry for entry in run.epochs if isinstance(entry.get("test_accuracy"), float)]
    last = max(len(entries) // 10, 1)
    if len(entries) <= last:
        return None
    before = entries[-1 - last]
    return 100 * (entries[-1]["test_accuracy"] - before["test_accuracy"]), int(before.get("epoch", 0))


def silent_loss(run: RunSummary) -> float | None:
    """The least loss of a model that answers every image alike: of MMC, half the mean squared distance of the centers
    to their mean (C²/2 where that is the origin); of SCE, the logarithm of the number of classes. None of others.
    """
    loss, source = run.settings.get("loss", {}), run.settings.get("data", {}).get("source")
    if source not in SOURCES:
        return None
    classes = len(SOURCES[source].class_counts["test"])
    if loss.get("name") == "sce":
        return math.log(classes)
    if loss.get("name") != "mmc" or loss.get("form", "squared") != "squared" or loss.get("scale", 1.0) != 1.0:
        return None
    try:
        settings = from_table(Settings, dict(run.settings))
        centers = preset_centers(settings, classes, SOURCES[source].superclasses).double()
    except MaxmahalError:  # settings of another version, or a tree that cannot be read any more
        return None
    return float((centers - centers.mean(dim=0)).square().sum(dim=1).mean()) / 2


def undertrained(shelf: Shelf, models: Sequence[str]) -> str:
    """How far these trainings came, as sentences; empty where none was collected."""
    runs = {title_of(shelf, name): run for name in models if (run := finished(shelf, name)) is not None}
    told = [f"{title} {_fell(run)}" for title, run in runs.items() if _losses(run)]
    parts = [f"Losses on attacked training images, first epoch to last: {listed(told)}."] if told else []
    if silent := [f"{loss:.1f} ({title})" for title, run in runs.items() if (loss := silent_loss(run)) is not None]:
        parts.append(f"A model that answers every image alike has a loss of {listed(silent)}.")
    rises = {title: found for title, run in runs.items() if (found := rise(run)) is not None and found[0] > RISING}
    if rises:
        gains = [
            f"{points(gain / 100)} points ({title}, since epoch {since})" for title, (gain, since) in rises.items()
        ]
        parts.append(
            "Over the last tenth of the epochs, the learning rate falling to nothing, the accuracy on clean test "
            f"images still rose: {listed(gains)}. These are signs of too little training: more epochs may change "
            "their order."
        )
    highest = {title: run for title, run in runs.items() if rate_edge(shelf, run) == "highest"}
    edge = [title for title, run in highest.items() if not better_slower(shelf, run.name)]
    if edge:
        parts.append(f"{listed(edge)} took the highest learning rate that was tried; higher ones might do better.")
    return " ".join(parts)


def caution(shelf: Shelf, model: str) -> str:
    """For the card of one model: that its training was too short, where it was adversarial and still gaining."""
    run = finished(shelf, model)
    adversarial = run is not None and run.settings.get("method", {}).get("name") == "adversarial"
    found = rise(run)
    if run is None or not adversarial or found is None or found[0] <= RISING:
        return ""
    gain, since = found
    told = (
        f"There are signs of too little training: since epoch {since} of {len(run.epochs)}, the learning rate falling "
        f"to nothing, its accuracy on clean test images still rose by {gain:.1f} points"
    )
    loss, silent = _losses(run), silent_loss(run)
    if not loss or silent is None:
        return f"{told}."
    ended = f"its loss on attacked training images ended at {loss[1]:.1f}"
    return f"{told}; {ended}, and a model that answers every image alike has {silent:.1f}."


def finished(shelf: Shelf, model: str) -> RunSummary | None:
    """Its training, where that came to its end."""
    run = shelf.run(model)
    return run if run is not None and run.finished and run.epochs else None


def _losses(run: RunSummary) -> list[float]:
    """Of the first and the last epoch, where both are known."""
    found = [entry.get("train_loss") for entry in (run.epochs[0], run.epochs[-1])]
    known = [each for each in found if isinstance(each, float)]
    return known if len(known) == len(found) else []


def _fell(run: RunSummary) -> str:
    first, last = _losses(run)
    return f"{first:.1f} to {last:.1f} in {len(run.epochs)} epochs"
