"""Verdicts on what training costs and how fast it converges, from the runs alone."""

from collections.abc import Sequence

from maxmahal.evaluate.summary import RunSummary
from maxmahal.report.published.judging import Judgement, Verdict, share
from maxmahal.report.published.models import TABLE_1, title_of
from maxmahal.report.published.shelf import NOT_RUN, Shelf
from maxmahal.report.published.tables import markdown
from maxmahal.report.wording import duration

LITTLE, SOME = 1.05, 1.25  # times as long as SCE
LEVELS = (30.0, 20.0, 15.0, 10.0, 8.0)  # test errors in percent that a curve passes on its way
_SCE, _MMC = "cifar10-sce", "cifar10-mmc"
_UNFINISHED = "The trainings of SCE and MMC-10 have not both been finished and collected."


def cost(shelf: Shelf) -> Judgement:
    """Holds if training with MMC takes at most 5 % longer than with SCE, in part up to 25 %.

    By an epoch of finished runs of one network and batch, each alone on a GPU of the same name; where there are none,
    by training steps of ResNet-32 with either loss that a benchmark timed in turn in one process.
    """
    shown = _runs_table(shelf)
    sce, mmc = shelf.run(_SCE), shelf.run(_MMC)
    why = _UNFINISHED
    if sce is not None and mmc is not None and is_finished(sce) and is_finished(mmc):
        why = _why_no_timing(sce, mmc)
        if not why:
            ratio = _epoch_seconds(mmc) / _epoch_seconds(sce)
            return Judgement(
                _by_ratio(ratio), f"An epoch of MMC-10 takes {ratio:.2f} times as long as one of SCE.", shown
            )
    if shelf.steps is None:
        return Judgement("not measured", why, shown)
    steps = shelf.steps
    reason = (
        f"A training step of MMC takes {steps.mmc_over_sce:.3f} times as long as one of SCE (ResNet-32, batches of "
        f"{steps.batch}, {steps.device}, `{steps.command}`). That is a benchmark's number, since "
        f"the runs have none: {why}"
    )
    return Judgement(_by_ratio(steps.mmc_over_sce), reason, shown)


def _by_ratio(ratio: float) -> Verdict:
    return "holds" if ratio <= LITTLE else "holds in part" if ratio <= SOME else "does not hold"


def convergence(shelf: Shelf) -> Judgement:
    """Holds if MMC is first at every level of test error that either reaches, in part if at some; in epochs.

    Only finished runs count, of as many epochs and of one batch size.
    """
    sce, mmc = shelf.run(_SCE), shelf.run(_MMC)
    reached = {level: [None if run is None else _reach(run, level) for run in (sce, mmc)] for level in LEVELS}
    runs = [run for run in (sce, mmc) if run is not None]
    timed = all(map(is_finished, runs)) and not why_not_timed(runs)
    body = [
        [f"{level:g} %", *(_when(run, epoch, timed) for run, epoch in zip((sce, mmc), epochs, strict=True))]
        for level, epochs in reached.items()
    ]
    titles = [f"{title}{_remarks(run)}" for title, run in (("SCE", sce), ("MMC-10", mmc))]
    shown = markdown(["test error first at or below", *titles], body)
    if sce is None or mmc is None or not (is_finished(sce) and is_finished(mmc)):
        return Judgement("not measured", _UNFINISHED, shown)
    if _schedule(sce) != _schedule(mmc):
        reason = "SCE and MMC-10 were trained for different epochs or with different batches, so neither is first."
        return Judgement("not measured", reason, shown)
    first = [_is_first(ours, theirs) for theirs, ours in reached.values() if (theirs, ours) != (None, None)]
    if not first:
        reason = f"Neither SCE nor MMC-10 comes down to a test error of {max(LEVELS):g} %."
        return Judgement("not measured", reason, shown)
    return Judgement(share(first), f"MMC-10 is first at {sum(first)} of {len(first)} levels of the test error.", shown)


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


def _remarks(run: RunSummary | None) -> str:
    """What keeps a run from being compared with any other, behind its title: " (batch 128, shared by 2)"."""
    if run is None:
        return ""
    facts = [f"batch {batch}" if (batch := batch_of(run)) else "", state_of(run)]
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


def _is_first(ours: int | None, theirs: int | None) -> bool:
    return ours is not None and (theirs is None or ours < theirs)


def _epoch_seconds(run: RunSummary) -> float:
    return max(run.train_seconds, 1e-9) / len(run.epochs)


def _reach(run: RunSummary, level: float) -> int | None:
    for entry in run.epochs:
        accuracy = entry.get("test_accuracy")
        if accuracy is not None and 100 * (1 - accuracy) <= level:
            return int(entry["epoch"])
    return None


def _when(run: RunSummary | None, epoch: int | None, timed: bool) -> str:
    """The epoch, and after how long where times can be compared."""
    if run is None:
        return NOT_RUN
    if epoch is None:
        return "never"
    if not timed:
        return f"epoch {epoch}"
    seconds = next(float(entry["train_seconds"]) for entry in run.epochs if entry["epoch"] == epoch)
    return f"epoch {epoch} ({duration(seconds)})"
