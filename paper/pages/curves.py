"""Verdicts on what training costs and how fast it converges, from the runs alone."""

from collections.abc import Sequence
from statistics import median
from typing import Any, Literal

from maxmahal.report.wording import duration, listed
from paper.pages.both import Scene, on_both
from paper.pages.judging import Judgement, Verdict
from paper.pages.models import TABLE_1, title_of
from paper.pages.shelf import NOT_RUN, TUNING, Shelf
from paper.pages.steps import Steps
from paper.pages.tables import markdown
from paper.summaries import RunSummary

LITTLE, SOME = 1.05, 1.25  # times as long as SCE
AROUND = 2  # epochs on either side that a point of a curve is the median of
_SCE, _MMC = "cifar10-sce", "cifar10-mmc"
_UNFINISHED = "The trainings of SCE and MMC-10 have not both been finished and collected."
_NOT_JUDGED = "How many times as long adversarial training takes is not judged."
_Place = Literal["first", "tied", "behind"]
_PLACES: tuple[_Place, ...] = ("first", "tied", "behind")


def cost(shelf: Shelf) -> Judgement:
    """Holds if training with MMC takes at most 5 % longer than with SCE, in part up to 25 %; otherwise it does not.

    By an epoch of finished runs of one network and batch, each alone on a GPU of the same name; where there are none,
    by training steps of ResNet-32 with either loss, which a benchmark timed in turn in one process: the median of
    MMC's time over SCE's, at the batch of the runs, or at the largest where that was not timed. How many times as long
    adversarial training takes is not judged.
    """
    shown = _runs_table(shelf)
    sce, mmc = shelf.run(_SCE), shelf.run(_MMC)
    why = _UNFINISHED
    if sce is not None and mmc is not None and is_finished(sce) and is_finished(mmc):
        why = _why_no_timing(sce, mmc)
        if not why:
            ratio = _epoch_seconds(mmc) / _epoch_seconds(sce)
            reason = f"An epoch of MMC-10 takes {ratio:.2f} times as long as one of SCE. {_NOT_JUDGED}"
            return Judgement(_by_ratio(ratio), reason, shown)
    if shelf.steps is None:
        return Judgement("not measured", why, shown)
    batches = {batch_of(run) for run in (sce, mmc) if run is not None}
    return _by_steps(shelf.steps, batches.pop() if len(batches) == 1 else 0, why, shown)


def _by_steps(steps: Steps, batch: int, why: str, shown: str) -> Judgement:
    """By a benchmark's pairs of steps, at the batch of the runs if it has that."""
    row = steps.at(batch)
    reason = (
        f"A training step of MMC takes {row.mmc_over_sce:.3f} times as long as one of SCE: the median of {row.pairs} "
        f"pairs timed in turn, with quartiles of {row.low:.3f} and {row.high:.3f} (ResNet-32, batches of {row.batch}"
        f"{' as in the runs' if row.batch == batch else ''}, {steps.device}, `{steps.command}`). That is a benchmark's "
        f"number, since the runs have none: {why} It is of plain PyTorch, not of the engine that the runs were trained "
        f"with, and whether the device did other work meanwhile is not recorded. {_NOT_JUDGED}"
    )
    return Judgement(_by_ratio(row.mmc_over_sce), reason, shown)


def _by_ratio(ratio: float) -> Verdict:
    return "holds" if ratio <= LITTLE else "holds in part" if ratio <= SOME else "does not hold"


def convergence(shelf: Shelf) -> Judgement:
    """Holds if MMC is first at every level of test error that either reaches, in part if it is first at some and behind
    at none, undecided if first at some and behind at others; does not hold if it is first at none.

    In epochs, by the medians of five epochs that the figure draws; at most two epochs apart, which is as far as a
    median looks to either side, both are tied. By one finished training of each, of as many epochs and one batch size,
    whatever the learning rate of either. The levels are 30, 20, 15, 10 and 8 %; on CIFAR-100, where it was measured
    too, they are 60, 50, 40, 35 and 32 %, which were set when its curves were known.
    """
    return on_both(shelf, _convergence)


def _convergence(shelf: Shelf, scene: Scene) -> Judgement:
    sce, mmc, levels = shelf.run(scene.sce), shelf.run(scene.mmc), scene.levels
    runs = [run for run in (sce, mmc) if run is not None]
    timed = all(map(is_finished, runs)) and not why_not_timed(runs)
    body = [[f"{level:g} %", *(_when(run, level, timed) for run in (sce, mmc))] for level in levels]
    titles = [f"{title}{_remarks(run, _rate(run))}" for title, run in (("SCE", sce), ("MMC-10", mmc))]
    shown = markdown(["test error first at or below", *titles], body)
    if sce is None or mmc is None or not all(map(is_finished, runs)):
        return Judgement("not measured", _UNFINISHED, shown)
    if not all(map(tested, runs)):
        return Judgement("not measured", "The test errors of SCE and MMC-10 were not both written down.", shown)
    if _schedule(sce) != _schedule(mmc):
        reason = "SCE and MMC-10 were trained for different epochs or with different batches, so neither is first."
        return Judgement("not measured", reason, shown)
    standings = {level: found for level in levels if (found := _place(_reach(mmc, level), _reach(sce, level)))}
    if not standings:
        reason = f"Neither SCE nor MMC-10 comes down to a test error of {max(levels):g} %."
        return Judgement("not measured", reason, shown)
    ends = [f"{100 * (1 - tested(run)[-1]['test_accuracy']):.2f} %" for run in (sce, mmc)]
    reason = (
        f"Of {len(standings)} levels of the test error MMC-10 is {listed([_at(standings, word) for word in _PLACES])}. "
        f"That is one training of each; at the end the test error of SCE is {ends[0]} and that of MMC-10 {ends[1]}."
    )
    return Judgement(_by_places({*standings.values()}), reason + _why_not_the_loss_alone(shelf, sce, mmc), shown)


def _by_places(seen: set[_Place]) -> Verdict:
    if "first" not in seen:
        return "does not hold"
    return "holds" if seen == {"first"} else "undecided" if "behind" in seen else "holds in part"


def _place(ours: int | None, theirs: int | None) -> _Place | None:
    """Who comes to a level first, by the epochs; None where neither does."""
    if ours is None or theirs is None:
        return "first" if ours is not None else "behind" if theirs is not None else None
    return "tied" if abs(ours - theirs) <= AROUND else "first" if ours < theirs else "behind"


def _at(standings: dict[float, _Place], word: _Place) -> str:
    """ "tied at 2 (30 % and 10 %)"."""
    levels = [f"{level:g} %" for level, found in standings.items() if found == word]
    return f"{word} at {len(levels)} ({listed(levels)})" if levels else f"{word} at none"


def _why_not_the_loss_alone(shelf: Shelf, sce: RunSummary, mmc: RunSummary) -> str:
    """That two runs differ in more than the loss, as a sentence to go on with; empty where learning rates agree."""
    if _rate(sce) == _rate(mmc):
        return ""
    trials = {_tried(run) for run in shelf.runs if run.name.startswith(TUNING)}
    chosen = ", each [chosen from trials](README.md#tuning) of its loss" if {_tried(sce), _tried(mmc)} <= trials else ""
    return f" Their learning rates differ{chosen}, so the loss is not all that sets the two apart."


def _tried(run: RunSummary) -> tuple[object, ...]:
    """What a trial has to share with a run before its learning rate may be called chosen."""
    settings = run.settings
    data, network = settings.get("data", {}).get("source"), settings.get("model", {}).get("backbone")
    return (data, network, settings.get("loss", {}).get("name"), batch_of(run), _rate(run))


def medians(values: Sequence[float]) -> list[float]:
    """Each value's median with its neighbours, as many on either side: test errors jump while learning rates are high,
    and curves that do would hide each other.
    """
    last = len(values) - 1
    reach = [min(AROUND, place, last - place) for place in range(len(values))]
    return [median(values[place - far : place + far + 1]) for place, far in enumerate(reach)]


def tested(run: RunSummary) -> list[dict[str, Any]]:
    """The epochs that a curve is drawn through."""
    return [entry for entry in run.epochs if entry.get("test_accuracy") is not None and entry["train_seconds"] > 0]


def is_finished(run: RunSummary) -> bool:
    """Whether it came to its end; what is still on its way is compared with nothing."""
    return run.finished and bool(run.epochs)


def batch_of(run: RunSummary) -> int:
    """Images a step; 0 where nobody wrote it down."""
    return int(run.settings.get("train", {}).get("batch_size", 0))


def state_of(run: RunSummary) -> str:
    """ "180 of 200 epochs" of a run that has not come to its end; empty of others."""
    planned = run.settings.get("train", {}).get("epochs", "?")
    return "" if is_finished(run) else f"{len(run.epochs)} of {planned} epochs"


def why_not_timed(runs: Sequence[RunSummary]) -> str:
    """Why the times of some runs do not belong on one axis, in few words; empty where they do."""
    if any(run.sharing > 1 for run in runs):
        return "not every training was alone on its GPU" if len(runs) > 1 else "the training was not alone on its GPU"
    if not all(run.gpu for run in runs):
        return "on which GPU the training ran is not known"
    if len({batch_of(run) for run in runs}) > 1:
        return "the batches differ"
    return "the devices or networks differ" if len({_machine(run) for run in runs}) > 1 else ""


def _why_no_timing(sce: RunSummary, mmc: RunSummary) -> str:
    """Why two runs' times cannot be compared, as a sentence; empty where they can."""
    if shared := [run for run in (sce, mmc) if run.sharing > 1]:
        names = " and ".join(f"{run.name} ({run.sharing} at once)" for run in shared)
        return f"Trainings that share a GPU with others slow each other down, and these did: {names}."
    if not (sce.gpu and mmc.gpu):
        return "On which GPU SCE and MMC-10 were trained is not known, so their times say nothing."
    if _machine(sce) != _machine(mmc):
        return "SCE and MMC-10 were trained with another device, network or batch, so their times say nothing."
    return ""


def _runs_table(shelf: Shelf) -> str:
    base = shelf.run(_SCE)
    body = []
    for name in TABLE_1:
        run = shelf.run(name)
        if run is None or not run.epochs:
            body.append([title_of(shelf, name), *[NOT_RUN] * 3])
            continue
        same = base is not None and is_finished(base) and is_finished(run) and not _why_no_timing(base, run)
        ratio = f"{_epoch_seconds(run) / _epoch_seconds(base):.2f}" if base is not None and same else "–"
        title = f"{title_of(shelf, name)}{_remarks(run)}"
        body.append([title, f"{_epoch_seconds(run):.2f} s", ratio, duration(run.train_seconds)])
    return markdown(["training", "an epoch", "times SCE's", "in all"], body)


def _rate(run: RunSummary | None) -> str:
    """ "learning rate 0.1"; empty where nobody wrote it down."""
    rate = None if run is None else run.settings.get("train", {}).get("lr")
    return "" if rate is None else f"learning rate {rate:g}"


def _remarks(run: RunSummary | None, also: str = "") -> str:
    """What keeps a run from being compared with any other, behind its title: " (batch 128, shared by 2)"."""
    if run is None:
        return ""
    facts = [f"batch {batch}" if (batch := batch_of(run)) else "", also, state_of(run)]
    facts += [f"shared by {run.sharing}" if run.sharing > 1 else ""]
    said = ", ".join(fact for fact in facts if fact)
    return f" ({said})" if said else ""


def _machine(run: RunSummary) -> tuple[object, ...]:
    settings = run.settings
    network = settings.get("model", {}).get("backbone")
    return (
        run.gpu,
        run.device,
        network,
        settings.get("train", {}).get("batch_size"),
        settings.get("data", {}).get("source"),
    )


def _schedule(run: RunSummary) -> tuple[object, ...]:
    train = run.settings.get("train", {})
    return (len(run.epochs), train.get("epochs"), train.get("batch_size"))


def _epoch_seconds(run: RunSummary) -> float:
    return max(run.train_seconds, 1e-9) / len(run.epochs)


def _below(run: RunSummary, level: float) -> list[tuple[int, bool]]:
    """Each epoch, and whether the median of the test errors around it is at or below a level."""
    entries = tested(run)
    # Rounded, as 100 * (1 - 0.85) is a hair above 15.
    errors = medians([round(100 * (1 - float(entry["test_accuracy"])), 6) for entry in entries])
    return [(int(entry["epoch"]), error <= level) for entry, error in zip(entries, errors, strict=True)]


def _reach(run: RunSummary, level: float) -> int | None:
    return next((epoch for epoch, below in _below(run, level) if below), None)


def _when(run: RunSummary | None, level: float, timed: bool) -> str:
    """The epoch, after how long where times can be compared, and from when on for good if that is later."""
    if run is None:
        return NOT_RUN
    epoch = _reach(run, level)
    if epoch is None:
        return "never"
    seconds = next(float(entry["train_seconds"]) for entry in run.epochs if entry["epoch"] == epoch)
    after = f" ({duration(seconds)})" if timed else ""
    return f"epoch {epoch}{after}{_for_good(_below(run, level))}"


def _for_good(below: Sequence[tuple[int, bool]]) -> str:
    """ ", for good from 151" of a curve that rises above the level again; empty of others."""
    states = [state for _, state in below]
    since = max(place for place, state in enumerate([False, *states]) if not state)  # counts the epochs before it
    if since == states.index(True):
        return ""
    return f", for good from {below[since][0]}" if since < len(states) else ", not for good"
