"""CIFAR-100 with networks that pool fewer values than the centers of 100 classes span dimensions."""

from collections.abc import Sequence
from functools import cache

from jaxtyping import Float
from torch import Tensor

from maxmahal.centers import dimensions_spanned, squared_distance_to_flat
from maxmahal.data import CIFAR100_SUPERCLASSES
from maxmahal.errors import MaxmahalError
from maxmahal.losses import takes_centers
from maxmahal.models import BACKBONES
from maxmahal.records.statistics import Rate
from maxmahal.settings import from_table
from maxmahal.train import Settings, preset_centers
from paper.pages.models import TUNING
from paper.pages.results import Published, cell_text
from paper.pages.text import NOT_RUN, markdown_table
from paper.pages.training import learning_rate, network_of
from paper.summaries import RunSummary

CLASSES = len(CIFAR100_SUPERCLASSES)
NARROW = "-narrow"
"""How the names of models end whose counterparts pool more values."""
_IMAGE = (3, 32, 32)


def narrow_runs(results: Published) -> list[RunSummary]:
    """Finished trainings on CIFAR-100 whose network pools fewer values than the centers could span dimensions."""
    found = []
    for run in results.runs:
        hundred = run.settings.get("data", {}).get("source") == "cifar100"
        if hundred and run.finished and run.epochs and not run.name.startswith(TUNING):
            network = network_of(run)
            if network in BACKBONES and _width(network) < CLASSES - 1:
                found.append(run)
    return sorted(found, key=lambda run: (-len(run.epochs), run.name))


def narrow_tables(results: Published) -> list[str]:
    """What each of them reached beside the lower bound of its loss; one table per length of training."""
    runs = narrow_runs(results)
    lengths = dict.fromkeys(len(run.epochs) for run in runs)
    return [_table(results, [run for run in runs if len(run.epochs) == length]) for length in lengths]


def silent_classes(results: Published) -> list[str]:
    """Models that get no test image of some classes right, each with the number of these classes."""
    known = [(run.name, rate) for run in narrow_runs(results) if (rate := _answered(results, run.name)) is not None]
    return [f"`{name}` {rate.total - rate.count:.0f}" for name, rate in known if rate.count < rate.total]


def _table(results: Published, runs: Sequence[RunSummary]) -> str:
    """Columns without a number are left out."""
    header = ["training", "epochs", "learning rate", "centers span", "loss at least", "training loss", "test accuracy"]
    body = [_row(run) for run in runs]
    more = {
        "classes with a correct answer": [
            NOT_RUN if rate is None else f"{rate.count:.0f} of {rate.total}"
            for rate in (_answered(results, run.name) for run in runs)
        ],
        "PGD-50 un 8": [cell_text(results.measured(run.name, "pgd50-un-8")) for run in runs],
        "worst case of strict": [cell_text(results.robust(run.name, "strict")) for run in runs],
        "test accuracy with 256 values (its learning rate)": [_wider(results, run.name) for run in runs],
    }
    for title, cells in more.items():
        if any(each != NOT_RUN for each in cells):
            header.append(title)
            body = [[*row, each] for row, each in zip(body, cells, strict=True)]
    return markdown_table(header, body)


def _row(run: RunSummary) -> list[str]:
    settings, last = from_table(Settings, run.settings), run.epochs[-1]
    centers = _centers(settings)
    loss, least = dict(settings.loss.options), "–"
    squared = settings.loss.name == "mmc" and loss["form"] == "squared" and settings.method.name == "standard"
    if centers is not None and squared:
        missed = squared_distance_to_flat(centers, _width(settings.model.backbone))
        least = f"{loss['scale'] * missed / 2:.1f}"
    span = "–" if centers is None else str(dimensions_spanned(centers))
    numbers = [f"{last['train_loss']:.1f}", f"{100 * last['test_accuracy']:.1f}"]
    return [f"`{run.name}`", str(len(run.epochs)), f"{settings.train.lr:g}", span, least, *numbers]


def _answered(results: Published, name: str) -> Rate | None:
    """Classes with a correct answer, from an evaluation on all test images."""
    seen = [each.answered for each in results.evaluations if each.name == name and not each.limited]
    return next((rate for rate in seen if rate is not None), None)


def _wider(results: Published, name: str) -> str:
    """Of the model of the same name without the ending."""
    wide = name.removesuffix(NARROW)
    found, run = results.clean(wide) if wide != name else None, results.run(wide)
    rate = f" ({learning_rate(run):g})" if run is not None and learning_rate(run) else ""
    return NOT_RUN if found is None else f"{found.cell}{rate}"


def _centers(settings: Settings) -> Float[Tensor, "l d"] | None:
    """As they were trained towards; None of a loss without centers, or if their class tree is gone."""
    if not takes_centers(settings.loss.name):
        return None
    try:
        return preset_centers(settings, CLASSES, CIFAR100_SUPERCLASSES)
    except MaxmahalError:
        return None


@cache
def _width(network: str) -> int:
    """How many values its last layer takes."""
    return int(BACKBONES[network](_IMAGE, 2).feature.in_features)  # type: ignore[arg-type, union-attr]
