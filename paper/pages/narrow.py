"""Networks that pool fewer values than the centers of 100 classes span dimensions, and what becomes of the classes."""

from collections.abc import Callable, Sequence
from functools import cache

from jaxtyping import Float
from torch import Tensor

from maxmahal.centers import dimensions_spanned, squared_distance_to_flat
from maxmahal.data import CIFAR100_SUPERCLASSES
from maxmahal.errors import MaxmahalError
from maxmahal.losses import takes_centers
from maxmahal.models import BACKBONES
from maxmahal.records.statistics import Rate
from maxmahal.report.wording import listed
from maxmahal.settings import from_table
from maxmahal.train import Settings, preset_centers
from paper.pages.apart import parameters
from paper.pages.borrowed import all_trials, kind_of
from paper.pages.shelf import NOT_RUN, TUNING, Shelf
from paper.pages.tables import markdown
from paper.pages.trainings import best_validation, learning_rate, network_of
from paper.summaries import RunSummary

CLASSES = len(CIFAR100_SUPERCLASSES)
NARROW = "-narrow"  # how the names of models end whose twins pool more
_NONE = "–"
_IMAGE = (3, 32, 32)
_ABOUT = (
    "A linear layer fills as many dimensions as it takes values: 64 after the pooling of ResNet-32. The "
    "Max-Mahalanobis centers of 100 classes span 99 and lie along none of them more than along another, so ½‖z − μ‖² "
    "stays above C²/2·(1 − 64/99) on average, however long the training. That is a bound and no forecast: other "
    "centers leave more room and the loss may still stay far above it. Losses with a softmax need no feature at its "
    "center. The paper's text names ResNet-32; the network of its code pools 256 values, and so do `resnet32wide` and "
    "`resnet110wide`, which the tables above are for."
)
_CENTERS = (
    "Names of centers: *orthogonal*, *shared* and *rotated* are hierarchical ones of the 20 superclasses, in "
    "subspaces of their own, in shared coordinates, and there with every superclass turned at random; *random* is a "
    "tree with the classes dealt out at random, and *mmc-rand* random centers without a tree. The number is C2/C1, of "
    "*emc* its alpha."
)


def narrow_models(shelf: Shelf) -> list[str]:
    """Finished trainings on CIFAR-100 whose network pools fewer values than the centers could span dimensions."""
    return [run.name for run in _narrow(shelf)]


def narrow_section(shelf: Shelf) -> list[str]:
    """What each of them came to beside the floor under its loss, a table a length of training; nothing without any."""
    runs = _narrow(shelf)
    if not runs:
        return []
    lengths = dict.fromkeys(len(run.epochs) for run in runs)
    tables = [_table(shelf, [run for run in runs if len(run.epochs) == length]) for length in lengths]
    told = [_ABOUT, "One seed each." if shelf.one_seed(run.name for run in runs) else "", _confounded(shelf, runs)]
    about = [" ".join(sentence for sentence in told if sentence), *_lost(shelf, runs)]
    return ["### Sixty-four values for a hundred centers", *about, *tables, _CENTERS]


def _confounded(shelf: Shelf, runs: Sequence[RunSummary]) -> str:
    """What else than the number of pooled values sets the last column apart; empty where there is none."""
    twins = [(run, twin) for run in runs if (twin := _twin(shelf, run)) is not None]
    sides = list(zip(*twins, strict=True))
    networks = [dict.fromkeys(name for each in side if (name := network_of(each)) in BACKBONES) for side in sides]
    if not networks or not all(networks):
        return ""
    narrow, wide = (listed([f"`{name}` ({parameters(name):,} parameters)" for name in side]) for side in networks)
    trials = [told for run, twin in twins if (told := _trials(shelf, run, twin))]
    return (
        f"The last column is not of more values alone: {wide} also has a 1x1 convolution with batch norm and ReLU "
        f"before the pooling, which {narrow} has not, and the learning rates differ, tuned on each network by "
        f"themselves.{f' Trials with 64 values came on held-out images to {listed(trials)}.' if trials else ''}"
    )


def _trials(shelf: Shelf, run: RunSummary, twin: RunSummary) -> str:
    """What trials of the narrow network came to at either learning rate; empty where not both were tried."""
    found: dict[float, float] = {}
    for rate in (learning_rate(run), learning_rate(twin)):
        alike = (*_tried(run)[:-1], rate)
        tried = [each for each in all_trials(shelf) if _tried(each) == alike]
        scores = [score for each in tried if (score := best_validation(each)) is not None]
        found |= {rate: max(scores)} if scores else {}
    told = [f"{100 * score:.1f} % at {rate:g}" for rate, score in found.items()]
    return f"{' and '.join(told)} ({run.settings.get('loss', {}).get('name', '')})" if len(told) > 1 else ""


def _tried(run: RunSummary) -> tuple[object, ...]:
    """What a trial has to share with a training, and its learning rate."""
    train = run.settings.get("train", {})
    return (*kind_of(run), train.get("batch_size"), train.get("weight_decay"), learning_rate(run))


def _table(shelf: Shelf, runs: Sequence[RunSummary]) -> str:
    """What is known of every training, and of what was measured on some of them the columns that hold anything."""
    header = ["training", "epochs", "learning rate", "centers span", "loss at least", "training loss", "test accuracy"]
    body = [_row(run) for run in runs]
    measured: dict[str, Callable[[Shelf, str], str]] = {
        "classes with a right answer": _told,
        "PGD-50 un 8": _pgd,
        "worst case of strict": _worst,
        "test accuracy with more values (its learning rate)": _wider,
    }
    for title, cell in measured.items():
        cells = [cell(shelf, run.name) for run in runs]
        if any(each != NOT_RUN for each in cells):
            header.append(title)
            body = [[*row, each] for row, each in zip(body, cells, strict=True)]
    return markdown(header, body)


def _row(run: RunSummary) -> list[str]:
    settings, last = from_table(Settings, run.settings), run.epochs[-1]
    centers = _centers(settings)
    span = _NONE if centers is None else str(dimensions_spanned(centers))
    loss, floor = dict(settings.loss.options), _NONE
    squared = settings.loss.name == "mmc" and loss["form"] == "squared" and settings.method.name == "standard"
    if centers is not None and squared:
        missed = squared_distance_to_flat(centers, _width(settings.model.backbone))
        floor = f"{loss['scale'] * missed / 2:.1f}"
    numbers = [f"{last['train_loss']:.1f}", f"{100 * last['test_accuracy']:.1f}"]
    return [f"`{run.name}`", str(len(run.epochs)), f"{settings.train.lr:g}", span, floor, *numbers]


def _lost(shelf: Shelf, runs: Sequence[RunSummary]) -> list[str]:
    """Which models get no test image of some of the classes right."""
    known = {run.name: rate for run in runs if (rate := _answered(shelf, run.name)) is not None}
    found = [
        f"`{name}` {rate.total - rate.count:.0f} of {rate.total}"
        for name, rate in known.items()
        if rate.count < rate.total
    ]
    told = f"Of the {len(known)} of these models whose answers were recorded class by class, {len(found)}"
    return [f"{told} get no test image right of some classes: {listed(found)}."] if found else []


def _narrow(shelf: Shelf) -> list[RunSummary]:
    found = []
    for run in shelf.runs:
        hundred = run.settings.get("data", {}).get("source") == "cifar100"
        if hundred and run.finished and run.epochs and not run.name.startswith(TUNING):
            network = run.settings.get("model", {}).get("backbone")
            if network in BACKBONES and _width(network) < CLASSES - 1:
                found.append(run)
    return sorted(found, key=lambda run: (-len(run.epochs), run.name))


def _answered(shelf: Shelf, name: str) -> Rate | None:
    """From an evaluation on all test images that tells classes apart."""
    seen = [each.answered for each in shelf.evaluations if each.name == name and not each.limited]
    return next((rate for rate in seen if rate is not None), None)


def _told(shelf: Shelf, name: str) -> str:
    rate = _answered(shelf, name)
    return NOT_RUN if rate is None else f"{rate.count:.0f} of {rate.total}"


def _pgd(shelf: Shelf, name: str) -> str:
    left = shelf.stage(name, "pgd50-un-8")
    return NOT_RUN if left is None else left.cell


def _worst(shelf: Shelf, name: str) -> str:
    worst = shelf.robust(name, "strict")
    return NOT_RUN if worst is None else worst.cell


def _wider(shelf: Shelf, name: str) -> str:
    """Of the model of the same name without the ending, which the tables of the paper are filled with."""
    found = shelf.clean(name.removesuffix(NARROW)) if name.endswith(NARROW) else None
    twin = shelf.run(name.removesuffix(NARROW))
    rate = f" ({learning_rate(twin):g})" if twin is not None and learning_rate(twin) else ""
    return NOT_RUN if found is None else f"{found.cell}{rate}"


def _twin(shelf: Shelf, run: RunSummary) -> RunSummary | None:
    """The finished training of the same name without the ending."""
    twin = shelf.run(run.name.removesuffix(NARROW)) if run.name.endswith(NARROW) else None
    return twin if twin is not None and twin.finished else None


def _centers(settings: Settings) -> Float[Tensor, "l d"] | None:
    """As they were trained towards; None of a loss that has none, or where their tree cannot be read any more."""
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
