"""What the trainings cost and what their settings were chosen from, as tables; from the runs alone."""

from collections.abc import Sequence

from maxmahal.report.wording import duration, listed
from paper.pages.borrowed import all_trials, borrowed
from paper.pages.edges import Edge, edge_of
from paper.pages.models import DATA, data_of, title_of
from paper.pages.shelf import NOT_RUN, OTHER_RATE, TUNING, Shelf
from paper.pages.tables import markdown
from paper.summaries import RunSummary

_CLEAN, _ATTACKED = "validation_accuracy", "validation_pgd10"
_SHARED = (
    "Runs that shared a GPU slowed each other down, each as much as the others asked of it: their times can be "
    "compared neither with each other nor with those of runs that had it alone."
)
_CHOICE = (
    "Best of its network and loss: under attack the highest validation PGD-10, ties by validation accuracy; without "
    "attack the highest validation accuracy among the trials of one batch. Used: by a longer training among these "
    "results. Without attack all losses of a network take the same batch, so that their curves can be compared"
)


def cost_table(shelf: Shelf) -> str:
    """What each finished training took, and a sentence that names the others."""
    runs = [run for run in shelf.runs if not run.name.startswith(TUNING)]
    finished = [run for run in runs if run.finished and run.epochs]
    body = []
    for run in finished:
        facts = [str(len(run.epochs)), str(run.settings.get("train", {}).get("batch_size", "")), _place(run)]
        took = [f"{run.train_seconds / len(run.epochs):.2f} s", duration(run.train_seconds), _final_error(run.epochs)]
        body.append([run.name, *facts, *took])
    header = ["run", "epochs", "batch", "device", "an epoch", "in all", "test error at the end (%)"]
    parts = [markdown(header, body) if body else "No finished training has been collected yet."]
    if any(run.sharing > 1 for run in finished):
        parts.append(_SHARED)
    if left := [f"`{run.name}` ({_epochs(len(run.epochs))})" for run in runs if run not in finished]:
        parts.append(f"Left out, as not finished: {listed(left)}.")
    return "\n\n".join(parts)


def tuning_table(shelf: Shelf) -> str:
    """The trials that settings were chosen from, with those that were used; empty where none was collected."""
    trials = all_trials(shelf)
    best = _best(trials)
    others = [run for run in shelf.runs if run not in trials and not OTHER_RATE.search(run.name)]
    users = {run.name: [each.name for each in others if _way(each) == _way(run)] for run in trials}
    used = [run for run in trials if users[run.name]]
    groups = [_group(run) for run in used]
    body = []
    for run in trials:
        train = run.settings.get("train", {})
        facts = [str(train.get(key, "")) for key in ("epochs", "batch_size", "lr", "weight_decay")]
        scores = [_score(run, key) for key in (_CLEAN, _ATTACKED)]
        told = ["–" if score is None else f"{100 * score:.1f}" for score in scores]
        body.append(
            [
                run.name,
                _data(run),
                network_of(run),
                _loss(run),
                *facts,
                *told,
                _used(users[run.name], groups.count(_group(run))) if run in used else "best" if run in best else "",
            ]
        )
    header = ["trial", "data", "network", "loss", "epochs", "batch", "lr", "weight decay", "best validation"]
    if not body:
        return ""
    table = markdown([*header, "best validation PGD-10", "choice"], body, 4)
    return "\n\n".join(
        [
            table,
            f"{_CHOICE}{_without(shelf)}.",
            *_behind(best, used),
            *_one_decay(trials),
            *_at_an_edge(trials, [run for run in used if run in best]),
        ]
    )


def _without(shelf: Shelf) -> str:
    told = borrowed(shelf)
    return f", and some have no trials of their own: {told}" if told else ""


def _used(by: Sequence[str], rivals: int) -> str:
    """By whom, where two trials of a group were used."""
    if rivals < 2:
        return "used"
    return f"used by {by[0]}" + (f" and {len(by) - 1} more" if len(by) > 1 else "")


def _best(trials: Sequence[RunSummary]) -> list[RunSummary]:
    """The best trial of each group, of those that came to their end."""
    best: dict[tuple[object, ...], RunSummary] = {}
    for run in trials:
        if run.finished and _score(run, _CLEAN) is not None:
            group = _group(run)
            if group not in best or _rank(run) > _rank(best[group]):
                best[group] = run
    return list(best.values())


def rate_edge(shelf: Shelf, run: RunSummary) -> Edge | None:
    """Which end of the learning rates that its trials tried a training took; None of neither."""
    return edge_of(learning_rate(run), _tried(all_trials(shelf), run))


def trial_of(shelf: Shelf, run: RunSummary) -> RunSummary | None:
    """The trial whose settings a training took."""
    return next((each for each in all_trials(shelf) if _way(each) == _way(run)), None)


def outdone(shelf: Shelf, run: RunSummary) -> tuple[RunSummary, RunSummary] | None:
    """The trial whose settings a training took, and the one that the rule chooses, where that is another."""
    trials = all_trials(shelf)
    took = trial_of(shelf, run)
    best = next((each for each in _best(trials) if _group(each) == _group(run)), None)
    return None if took is None or best is None or took is best else (took, best)


def _behind(best: Sequence[RunSummary], used: Sequence[RunSummary]) -> list[str]:
    """The trials that were used without being the best of their group, with both scores."""
    first = {_group(run): run for run in best}
    found = [
        f"{run.name} ({chosen_by(run)} against {chosen_by(first[_group(run)])} of {first[_group(run)].name})"
        for run in used
        if _group(run) in first and run not in best
    ]
    return [f"Used without being the best: {listed(found)}."] if found else []


def chosen_by(run: RunSummary) -> str:
    """The scores that choose it, in percent, as exact as a tie needs them."""
    scores = [score for key in (_ATTACKED, _CLEAN) if (score := _score(run, key)) is not None]
    return " and ".join(f"{100 * score:.2f}" for score in scores)


def _one_decay(trials: Sequence[RunSummary]) -> list[str]:
    """Networks without attack whose trials all took one weight decay, which these could not choose."""
    tried: dict[str, set[float]] = {}
    for run in trials:
        decay = run.settings.get("train", {}).get("weight_decay")
        if _score(run, _ATTACKED) is None and decay is not None:
            tried.setdefault(f"{network_of(run)} on {_data(run)}", set()).add(float(decay))
    found = [f"{where} ({decays.pop():g})" for where, decays in tried.items() if len(decays) == 1]
    return [f"One weight decay alone was tried without attack with {listed(found)}."] if found else []


def _at_an_edge(trials: Sequence[RunSummary], used: Sequence[RunSummary]) -> list[str]:
    """Which of the learning rates that were used are the lowest or highest that was tried with that batch."""
    found: dict[Edge, list[str]] = {"highest": [], "lowest": []}
    for run in used:
        rate, tried = learning_rate(run), _tried(trials, run)
        if (edge := edge_of(rate, tried)) is not None:
            found[edge].append(f"{run.name} ({rate:g} of {min(tried):g} to {max(tried):g})")
    return [
        f"At the {word} learning rate tried: {listed(names)}; {side} ones might do better."
        for (word, names), side in zip(found.items(), ("higher", "lower"), strict=True)
        if names
    ]


def _tried(trials: Sequence[RunSummary], run: RunSummary) -> set[float]:
    """The learning rates of the trials that a training's settings were chosen among."""
    return {learning_rate(each) for each in trials if _group(each) == _group(run)}


def _group(run: RunSummary) -> tuple[object, ...]:
    """Trials that one is chosen among: of a network and loss under attack all, without attack those of one batch."""
    attacked = _score(run, _ATTACKED) is not None
    batch = None if attacked else run.settings.get("train", {}).get("batch_size")
    return (_data(run), network_of(run), _loss(run), attacked, batch)


def _way(run: RunSummary) -> tuple[object, ...]:
    """What a training takes over from a trial."""
    train, method = run.settings.get("train", {}), run.settings.get("method", {})
    return (
        _data(run),
        network_of(run),
        _loss(run),
        method.get("name"),
        *(train.get(key) for key in ("batch_size", "lr", "weight_decay")),
    )


def learning_rate(run: RunSummary) -> float:
    """0 where nobody wrote it down."""
    return float(run.settings.get("train", {}).get("lr", 0.0))


def _rank(run: RunSummary) -> tuple[float, float]:
    return (_score(run, _ATTACKED) or 0.0, _score(run, _CLEAN) or 0.0)


def schedules(shelf: Shelf, models: Sequence[str]) -> str:
    """How these models were trained, each way once with their names, as a sentence; empty where nothing is known."""
    ways: dict[str, list[str]] = {}
    for model in models:
        train = shelf.settings(model).get("train", {})
        if "lr" in train:
            way = (
                f"{train['epochs']} epochs in batches of {train['batch_size']}, learning rate {train['lr']:g}, "
                f"weight decay {train['weight_decay']:g}"
            )
            ways.setdefault(way, []).append(title_of(shelf, model))
    if len(ways) < 2:
        return f"Trained for {next(iter(ways))}." if ways else ""
    told = "; or for ".join(f"{way} ({listed(names)})" for way, names in ways.items())
    return f"Trained for {told}; [how these were chosen](#tuning)."


def _data(run: RunSummary) -> str:
    source = str(run.settings.get("data", {}).get("source", data_of(run.name)))
    return DATA.get(source, source)


def _epochs(count: int) -> str:
    return f"{count} epoch{'' if count == 1 else 's'}"


def _place(run: RunSummary) -> str:
    """Where it ran, and beside how many others."""
    where = run.gpu or run.device or "unknown"
    return f"{where}, shared by {run.sharing}" if run.sharing > 1 else where


def network_of(run: RunSummary) -> str:
    """The backbone's name; empty where nobody wrote it down."""
    return str(run.settings.get("model", {}).get("backbone", ""))


def _loss(run: RunSummary) -> str:
    """With the centers where they are of a tree, whose trials are their own."""
    name = str(run.settings.get("loss", {}).get("name", ""))
    return f"{name}, hierarchical" if run.settings.get("centers", {}).get("name") == "hierarchical" else name


def best_validation(run: RunSummary) -> float | None:
    """The best accuracy of its epochs on held-out images, as a share."""
    return _score(run, _CLEAN)


def _score(run: RunSummary, key: str) -> float | None:
    """The best of its epochs."""
    return max((value for entry in run.epochs if isinstance(value := entry.get(key), float)), default=None)


def _final_error(epochs: Sequence[dict[str, object]]) -> str:
    accuracy = epochs[-1].get("test_accuracy") if epochs else None
    return f"{100 - 100 * accuracy:.1f}" if isinstance(accuracy, float) else NOT_RUN
