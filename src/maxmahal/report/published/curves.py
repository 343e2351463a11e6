"""Verdicts on what training costs and how fast it converges, from the runs alone."""

from maxmahal.evaluate.summary import RunSummary
from maxmahal.report.published.judging import Judgement, Verdict
from maxmahal.report.published.models import TABLE_1, title_of
from maxmahal.report.published.shelf import NOT_RUN, Shelf
from maxmahal.report.published.tables import markdown
from maxmahal.report.wording import duration

LITTLE, SOME = 1.05, 1.25  # times as long as SCE
LEVELS = (30.0, 20.0, 15.0, 10.0, 8.0)  # test errors in percent that a curve passes on its way
_SCE, _MMC = "cifar10-sce", "cifar10-mmc"


def cost(shelf: Shelf) -> Judgement:
    """Holds if an epoch of MMC takes at most 5 % longer than one of SCE, in part up to 25 %."""
    shown = _runs_table(shelf)
    sce, mmc = shelf.run(_SCE), shelf.run(_MMC)
    if sce is None or mmc is None or not (sce.epochs and mmc.epochs):
        return Judgement("not measured", "The trainings of SCE and MMC-10 have not both been collected.", shown)
    if _machine(sce) != _machine(mmc):
        reason = "SCE and MMC-10 were trained with another device, network or batch, so their times say nothing."
        return Judgement("not measured", reason, shown)
    ratio = _epoch_seconds(mmc) / _epoch_seconds(sce)
    verdict: Verdict = "holds" if ratio <= LITTLE else "holds in part" if ratio <= SOME else "does not hold"
    return Judgement(verdict, f"An epoch of MMC-10 takes {ratio:.2f} times as long as one of SCE.", shown)


def convergence(shelf: Shelf) -> Judgement:
    """Holds if MMC is first at every level of test error that either reaches, in part if at some; in epochs."""
    runs = {name: shelf.run(name) for name in (_SCE, _MMC)}
    body, first = [], []
    for level in LEVELS:
        reached = {name: None if run is None else _reach(run, level) for name, run in runs.items()}
        cells = [NOT_RUN if runs[name] is None else _when(runs[name], epoch) for name, epoch in reached.items()]
        body.append([f"{level:g} %", *cells])
        sce, mmc = reached[_SCE], reached[_MMC]
        if runs[_SCE] is not None and runs[_MMC] is not None and (sce is not None or mmc is not None):
            first.append(mmc is not None and (sce is None or mmc < sce))
    shown = markdown(["test error first at or below", "SCE", "MMC-10"], body)
    if not first:
        return Judgement("not measured", "The trainings of SCE and MMC-10 have not both been collected.", shown)
    verdict: Verdict = "holds" if all(first) else "holds in part" if any(first) else "does not hold"
    return Judgement(verdict, f"MMC-10 is first at {sum(first)} of {len(first)} levels of the test error.", shown)


def _runs_table(shelf: Shelf) -> str:
    base = shelf.run(_SCE)
    body = []
    for name in TABLE_1:
        run = shelf.run(name)
        if run is None or not run.epochs:
            body.append([title_of(shelf, name), *[NOT_RUN] * 3])
            continue
        same = base is not None and bool(base.epochs) and _machine(base) == _machine(run)
        ratio = f"{_epoch_seconds(run) / _epoch_seconds(base):.2f}" if base is not None and same else "–"
        body.append([title_of(shelf, name), f"{_epoch_seconds(run):.2f} s", ratio, duration(run.train_seconds)])
    return markdown(["training", "an epoch", "times SCE's", "in all"], body)


def _machine(run: RunSummary) -> tuple[object, ...]:
    settings = run.settings
    network = settings.get("model", {}).get("backbone")
    return (run.device, network, settings.get("train", {}).get("batch_size"), settings.get("data", {}).get("source"))


def _epoch_seconds(run: RunSummary) -> float:
    return max(run.train_seconds, 1e-9) / len(run.epochs)


def _reach(run: RunSummary, level: float) -> int | None:
    for entry in run.epochs:
        accuracy = entry.get("test_accuracy")
        if accuracy is not None and 100 * (1 - accuracy) <= level:
            return int(entry["epoch"])
    return None


def _when(run: RunSummary | None, epoch: int | None) -> str:
    if run is None or epoch is None:
        return "never"
    seconds = next(float(entry["train_seconds"]) for entry in run.epochs if entry["epoch"] == epoch)
    return f"epoch {epoch} ({duration(seconds)})"
