"""What the trainings cost, what their settings were chosen from, how they converged; from the runs alone."""

import math
from collections.abc import Iterable, Sequence
from functools import cache
from statistics import median
from typing import Any, Literal

from maxmahal.data.registry import SOURCES
from maxmahal.errors import MaxmahalError
from maxmahal.losses import LOSSES, takes_centers
from maxmahal.models import BACKBONES
from maxmahal.settings import from_table
from maxmahal.train import Settings, preset_centers
from paper.pages.models import CLOCK, DATA, TUNING, data_of
from paper.pages.results import OTHER_RATE, Published
from paper.pages.text import NOT_RUN, markdown_table, plural
from paper.summaries import RunSummary

Edge = Literal["highest", "lowest"]
AROUND = 2  # epochs on either side that a point of a curve is the median of
_CLEAN, _ATTACKED = "validation_accuracy", "validation_pgd10"
_IMAGE, _FEATURES = (3, 32, 32), 256


def trials(results: Published) -> list[RunSummary]:
    """The short trainings that settings were chosen from."""
    return [run for run in results.runs if run.name.startswith(TUNING)]


def longer(results: Published) -> list[RunSummary]:
    """All trainings but trials and those of the page about the clock."""
    return [run for run in results.runs if not run.name.startswith((TUNING, CLOCK))]


def kind_of(run: RunSummary) -> tuple[object, ...]:
    """What a trial shares with a training: data, network, loss, its centers if it has any, method."""
    asked = (("data", "source"), ("model", "backbone"), ("loss", "name"), ("centers", "name"), ("method", "name"))
    data, network, loss, centers, method = (run.settings.get(part, {}).get(key) for part, key in asked)
    return data, network, loss, centers if loss in LOSSES and takes_centers(loss) else None, method


def train_setting(run: RunSummary, key: str) -> Any:
    """One setting of its ``train`` table; None if not recorded."""
    return run.settings.get("train", {}).get(key)


def learning_rate(run: RunSummary) -> float:
    """0 if not recorded."""
    return float(train_setting(run, "lr") or 0.0)


def batch_of(run: RunSummary) -> int:
    """Images per step; 0 if not recorded."""
    return int(train_setting(run, "batch_size") or 0)


def network_of(run: RunSummary) -> str:
    """The backbone's name; empty if not recorded."""
    return str(run.settings.get("model", {}).get("backbone", ""))


@cache
def parameters(network: str) -> int:
    """How many parameters a network has with 256 features."""
    return sum(each.numel() for each in BACKBONES[network](_IMAGE, _FEATURES).parameters())


def edge_of(value: float, tried: Iterable[float]) -> Edge | None:
    """Whether a chosen value is the highest or lowest that was tried; None inside, and if one alone was tried."""
    known = set(tried)
    if len(known) < 2:
        return None
    return "highest" if value >= max(known) else "lowest" if value <= min(known) else None


def is_finished(run: RunSummary) -> bool:
    """Whether it trained to its end."""
    return run.finished and bool(run.epochs)


def state_of(run: RunSummary) -> str:
    """ "180 of 200 epochs" or "diverged in epoch 3" of a run that is not finished; empty of others."""
    if run.diverged:
        return f"diverged in epoch {run.diverged}"
    return "" if is_finished(run) else f"{len(run.epochs)} of {train_setting(run, 'epochs') or '?'} epochs"


def unfinished(results: Published) -> list[str]:
    """Trainings without an end, each with its epochs."""
    runs = [run for run in longer(results) if not is_finished(run)]
    return [f"`{run.name}` ({plural(len(run.epochs), 'epoch')})" for run in runs]


def place(run: RunSummary) -> str:
    """The device, and how many trainings shared it."""
    where = run.gpu or run.device or "unknown"
    return f"{where}, shared by {run.sharing}" if run.sharing > 1 else where


def final_error(run: RunSummary) -> str:
    """The test error after the last epoch, in percent."""
    accuracy = run.epochs[-1].get("test_accuracy")
    return f"{100 - 100 * accuracy:.1f}" if isinstance(accuracy, float) else NOT_RUN


def epoch_seconds(run: RunSummary) -> float:
    """Per epoch, on average."""
    return max(run.train_seconds, 1e-9) / len(run.epochs)


def tuning_table(results: Published) -> str:
    """The trials that settings were chosen from, and which of them were used; empty without trials."""
    tried = trials(results)
    best = _best(tried)
    others = [run for run in results.runs if run not in tried and not OTHER_RATE.search(run.name)]
    users = {run.name: [each.name for each in others if _taken(each) == _taken(run)] for run in tried}
    groups = [_group(run) for run in tried if users[run.name]]
    body = []
    for run in tried:
        facts = [str(train_setting(run, key) or "") for key in ("epochs", "batch_size", "lr", "weight_decay")]
        scores = [best_score(run, key) for key in (_CLEAN, _ATTACKED)]
        texts = ["–" if score is None else f"{100 * score:.1f}" for score in scores]
        choice = "best" if run in best else ""
        if users[run.name]:
            first, more = users[run.name][0], len(users[run.name]) - 1
            by = f" by {first}{f' and {more} more' if more else ''}" if groups.count(_group(run)) > 1 else ""
            edge = edge_of(learning_rate(run), {learning_rate(each) for each in tried if _group(each) == _group(run)})
            at_edge = f", {edge} rate tried" if edge and run in best else ""
            outdone = ", not the best" if run not in best and any(_group(each) == _group(run) for each in best) else ""
            choice = f"used{by}{outdone}{at_edge}"
        body.append([run.name, _data(run), network_of(run), _loss(run), *facts, *texts, choice])
    header = ["trial", "data", "network", "loss", "epochs", "batch", "lr", "weight decay", "best validation"]
    return markdown_table([*header, "best validation PGD-10", "choice"], body, 4) if body else ""


def untuned(results: Published, models: Sequence[str]) -> list[str]:
    """Models whose settings come from trials of another loss, having none of their own."""
    runs = [run for model in models if (run := results.run(model)) is not None]
    return [f"`{run.name}`" for run in runs if not any(kind_of(each) == kind_of(run) for each in trials(results))]


def one_weight_decay(results: Published) -> list[str]:
    """Networks whose trials without attack all used one weight decay."""
    tried: dict[str, set[float]] = {}
    for run in trials(results):
        decay = train_setting(run, "weight_decay")
        if best_score(run, _ATTACKED) is None and decay is not None:
            tried.setdefault(f"{network_of(run)} on {_data(run)}", set()).add(float(decay))
    return [f"{where} ({decays.pop():g})" for where, decays in tried.items() if len(decays) == 1]


def best_score(run: RunSummary, key: str = _CLEAN) -> float | None:
    """The best of its epochs on held-out images."""
    return max((value for entry in run.epochs if isinstance(value := entry.get(key), float)), default=None)


def _best(tried: Sequence[RunSummary]) -> list[RunSummary]:
    """The best finished trial of each group."""
    groups: dict[tuple[object, ...], list[RunSummary]] = {}
    for run in tried:
        if run.finished and best_score(run) is not None:
            groups.setdefault(_group(run), []).append(run)
    return [max(group, key=_rank) for group in groups.values()]


def _rank(run: RunSummary) -> tuple[float, float]:
    return (best_score(run, _ATTACKED) or 0.0, best_score(run) or 0.0)


def _group(run: RunSummary) -> tuple[object, ...]:
    """Trials that one is chosen among: of one network, loss and length; without attack also of one batch."""
    attacked = best_score(run, _ATTACKED) is not None
    same = train_setting(run, "epochs") if attacked else train_setting(run, "batch_size")
    return (_data(run), network_of(run), _loss(run), attacked, same)


def _taken(run: RunSummary) -> tuple[object, ...]:
    """What a training takes over from a trial."""
    method = run.settings.get("method", {}).get("name")
    settings = (train_setting(run, key) for key in ("batch_size", "lr", "weight_decay"))
    return (_data(run), network_of(run), _loss(run), method, *settings, _averaging(run))


def _data(run: RunSummary) -> str:
    source = str(run.settings.get("data", {}).get("source", data_of(run.name)))
    return DATA.get(source, source)


def _loss(run: RunSummary) -> str:
    """With its centers if they are hierarchical, since these have trials of their own."""
    name = str(run.settings.get("loss", {}).get("name", ""))
    return f"{name}, hierarchical" if run.settings.get("centers", {}).get("name") == "hierarchical" else name


def constant_loss(run: RunSummary) -> float | None:
    """The least loss of a model that gives every image the same answer: of MMC, half the mean squared distance of the
    centers to their mean (C²/2 if that is the origin); of SCE, the logarithm of the number of classes. None of others.
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
    except MaxmahalError:  # settings of another version, or a class tree that is gone
        return None
    return float((centers - centers.mean(dim=0)).square().sum(dim=1).mean()) / 2


def training_losses(run: RunSummary) -> tuple[float, float] | None:
    """Of the first and the last epoch; None if not recorded."""
    first, last = (run.epochs[place].get("train_loss") if run.epochs else None for place in (0, -1))
    return (first, last) if isinstance(first, float) and isinstance(last, float) else None


def medians(values: Sequence[float]) -> list[float]:
    """Each value's median with its neighbours, since test errors jump while learning rates are high."""
    last = len(values) - 1
    reach = [min(AROUND, place, last - place) for place in range(len(values))]
    return [median(values[place - far : place + far + 1]) for place, far in enumerate(reach)]


def tested(run: RunSummary) -> list[dict[str, Any]]:
    """The epochs that a curve is drawn through."""
    return [entry for entry in run.epochs if entry.get("test_accuracy") is not None and entry["train_seconds"] > 0]


def alone(results: Published, name: str) -> RunSummary | None:
    """The training of that name, or the repetition of it that had its GPU to itself."""
    return results.run(f"{name}-alone") or results.run(name)


def why_not_timed(runs: Sequence[RunSummary], one_batch: bool = True) -> str:
    """Why the times of some runs do not belong on one axis, in few words; empty if they do."""
    if any(run.sharing > 1 for run in runs):
        return "not every training was alone on its GPU" if len(runs) > 1 else "the training was not alone on its GPU"
    if not all(run.gpu for run in runs):
        return "on which GPU the training ran is not known"
    if one_batch and len({batch_of(run) for run in runs}) > 1:
        return "the batches differ"
    machines = {(run.gpu, run.device, network_of(run), run.settings.get("data", {}).get("source")) for run in runs}
    return "the devices or networks differ" if len(machines) > 1 else ""


def reaches(run: RunSummary, level: float) -> list[tuple[int, bool]]:
    """Each epoch, and whether the median of the test errors around it is at or below a level in percent."""
    entries = tested(run)
    # Rounded, as 100 * (1 - 0.85) is slightly above 15.
    errors = medians([round(100 * (1 - float(entry["test_accuracy"])), 6) for entry in entries])
    return [(int(entry["epoch"]), error <= level) for entry, error in zip(entries, errors, strict=True)]


def first_epoch(run: RunSummary, level: float, last: float | int = math.inf) -> int | None:
    """The first epoch at or below a test error in percent, of those up to a last one."""
    return next((epoch for epoch, below in reaches(run, level) if below and epoch <= last), None)


def steady_epochs(run: RunSummary) -> int:
    """How many epochs pass before the learning rate first falls; none if it falls all the time."""
    schedule, planned = train_setting(run, "schedule") or "constant", len(run.epochs)
    if schedule == "step":
        return int(planned * min(train_setting(run, "milestones") or [1.0]))
    return planned if schedule == "constant" else 0


def longest_trials(results: Published, name: str) -> list[RunSummary]:
    """The longest trials of a training's kind and averaging: those that its settings were chosen from."""
    run = results.run(name)
    kind = None if run is None else (kind_of(run), _averaging(run))
    alike = [each for each in trials(results) if (kind_of(each), _averaging(each)) == kind]
    longest = max((len(each.epochs) for each in alike), default=0)
    return [each for each in alike if len(each.epochs) == longest]


def rate_edge(results: Published, name: str) -> Edge | None:
    """Whether a training's learning rate is the highest or the lowest of those trials."""
    run = results.run(name)
    return None if run is None else edge_of(learning_rate(run), map(learning_rate, longest_trials(results, name)))


def _averaging(run: RunSummary) -> float:
    return train_setting(run, "ema") or 0.0
