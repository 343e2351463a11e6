"""Networks that pool fewer values than the centers of 100 classes span dimensions, and what becomes of the classes."""

from collections.abc import Sequence
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from maxmahal.centers import CENTERS, squared_distance_to_flat
from maxmahal.evaluate.summary import RunSummary, Summary
from maxmahal.losses import takes_centers
from maxmahal.models import BACKBONES
from maxmahal.report.published.shelf import TUNING, Shelf
from maxmahal.report.published.tables import markdown
from maxmahal.report.wording import listed
from maxmahal.settings import from_table
from maxmahal.train import Settings

CLASSES, SUPERCLASSES = 100, 20
_IMAGE = (3, 32, 32)
_ABOUT = (
    "Features that a linear layer makes from 64 pooled values fill 64 dimensions at most. In the optimum of Eq. 8 each "
    "feature lies at its center, and Max-Mahalanobis centers of 100 classes span 99 dimensions, each of them equally: "
    "½‖z − μ‖² then stays above C²/2·(1 − 64/99) on average, however long the training. What it does with the 64 is to "
    "bring some classes to their centers and leave the others, rather than all of them half way. Losses with a softmax "
    "need no feature at its center. The paper's text names ResNet-32, which pools 64 values; the network of its code "
    "pools 256, and so do those of the tables above."
)


def narrow_models(shelf: Shelf) -> list[str]:
    """Finished trainings on CIFAR-100 whose network pools fewer values than there are classes."""
    return [run.name for run in _narrow(shelf)]


def narrow_section(shelf: Shelf) -> list[str]:
    """What each of them came to beside the floor under its loss, a table a length of training; nothing without any."""
    runs = _narrow(shelf)
    if not runs:
        return []
    lengths = dict.fromkeys(len(run.epochs) for run in runs)
    tables = [_table(shelf, [run for run in runs if len(run.epochs) == length]) for length in lengths]
    return ["### Sixty-four values for a hundred centers", _ABOUT, *_lost(shelf, runs), *tables]


def _table(shelf: Shelf, runs: Sequence[RunSummary]) -> str:
    """Columns that no more than some of the runs were measured for are left out."""
    header = ["training", "epochs", "centers span", "loss at least", "training loss", "test accuracy"]
    body = [_row(run) for run in runs]
    for title, cells in (
        ("classes ever answered", [_answered(shelf, run.name) for run in runs]),
        ("worst case of strict", [_worst(shelf, run.name) for run in runs]),
    ):
        if all(cells):
            header.append(title)
            body = [[*row, cell] for row, cell in zip(body, cells, strict=True)]
    return markdown(header, body)


def _row(run: RunSummary) -> list[str]:
    settings, last = from_table(Settings, run.settings), run.epochs[-1]
    span, floor = "–", "–"
    if takes_centers(settings.loss.name):
        centers = _centers(settings)
        span = str(int(torch.linalg.matrix_rank(centers - centers.mean(dim=0), rtol=1e-5)))
        if settings.loss.name == "mmc":
            floor = f"{squared_distance_to_flat(centers, _width(settings.model.backbone)) / 2:.1f}"
    loss, accuracy = f"{last['train_loss']:.1f}", f"{100 * last['test_accuracy']:.1f}"
    return [f"`{run.name}`", str(len(run.epochs)), span, floor, loss, accuracy]


def _lost(shelf: Shelf, runs: Sequence[RunSummary]) -> list[str]:
    """Which models never answer some of the classes."""
    found = []
    for run in runs:
        rate = next((each.answered for each in _seen(shelf, run.name)), None)
        if rate is not None and rate.count < rate.total:
            found.append(f"`{run.name}` {rate.total - rate.count:.0f} of {rate.total}")
    return [f"Classes that are not answered right on a single test image: {listed(found)}."] if found else []


def _narrow(shelf: Shelf) -> list[RunSummary]:
    found = []
    for run in shelf.runs:
        hundred = run.settings.get("data", {}).get("source") == "cifar100"
        if hundred and run.finished and run.epochs and not run.name.startswith(TUNING):
            network = run.settings.get("model", {}).get("backbone")
            if network in BACKBONES and _width(network) < CLASSES - 1:
                found.append(run)
    return sorted(found, key=lambda run: (-len(run.epochs), run.name))


def _answered(shelf: Shelf, name: str) -> str:
    rate = next((each.answered for each in _seen(shelf, name)), None)
    return "" if rate is None else f"{rate.count:.0f} of {rate.total}"


def _worst(shelf: Shelf, name: str) -> str:
    worst = shelf.robust(name, "strict")
    return "" if worst is None else worst.cell


def _seen(shelf: Shelf, name: str) -> list[Summary]:
    """Its evaluations on all test images that tell classes apart."""
    return [each for each in shelf.evaluations if each.name == name and not each.limited and each.answered is not None]


def _centers(settings: Settings) -> Float[Tensor, "l d"]:
    """As they were trained towards, up to which class is which: what they span does not depend on it."""
    superclasses = tuple(each // (CLASSES // SUPERCLASSES) for each in range(CLASSES))
    built: Tensor = settings.centers.build(
        CENTERS, num_classes=CLASSES, dim=settings.model.feature_dim, superclasses=superclasses
    )
    return built.double()


@cache
def _width(network: str) -> int:
    """How many values its last layer takes."""
    return int(BACKBONES[network](_IMAGE, 2).feature.in_features)  # type: ignore[arg-type, union-attr]
