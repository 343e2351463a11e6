"""Trials that settings were chosen from, and trainings without any, which took the settings of another loss."""

from collections.abc import Sequence

from maxmahal.losses import LOSSES, takes_centers
from maxmahal.report.wording import listed
from paper.pages.models import DATA, PLAIN, TABLE_4, data_of
from paper.pages.shelf import TUNING, Shelf
from paper.summaries import RunSummary

_SCE, _CENTER, *_, _RANDOM, _MMC = zip(PLAIN, TABLE_4, strict=False)  # on CIFAR-10 and on CIFAR-100
_HM = TABLE_4[-1]
_TAKEN = ("batch_size", "lr", "weight_decay")


def all_trials(shelf: Shelf) -> list[RunSummary]:
    """The short trainings that settings were chosen from."""
    return [run for run in shelf.runs if run.name.startswith(TUNING)]


def own_trials(shelf: Shelf, run: RunSummary) -> list[RunSummary]:
    """Those of a training's own kind, at whatever rate."""
    return [each for each in all_trials(shelf) if kind_of(each) == kind_of(run)]


def borrowed(shelf: Shelf) -> str:
    """Which trainings without attack and without trials of their own have whose settings; empty where none has."""
    takers = {"random centers": _where(shelf, _RANDOM, _MMC), "hierarchical ones (HM)": _where(shelf, [_HM], _MMC[1:])}
    names = [f", {where}, {name}" if where else f" {name}" for name, where in takers.items() if where is not None]
    told = [f"{' and'.join(names).lstrip(' ,')} take MMC's settings"] if names else []
    where = _where(shelf, _CENTER, _SCE)
    if where is not None and told:
        named = [each for each in takers.values() if each]
        there = "there" if named[-1:] == [where] else where
        told.append(f"center loss SCE's {there}".rstrip())
    elif where is not None:
        told.append(f"{where}, center loss takes SCE's settings".lstrip(" ,"))
    return ", ".join(told)


def _where(shelf: Shelf, takers: Sequence[str], lenders: Sequence[str]) -> str | None:
    """ "on CIFAR-100": the data sets on which models took the settings of others; empty for all, None for none."""
    pairs = zip(takers, lenders, strict=True)
    found = [DATA[data_of(taker)] for taker, lender in pairs if _takes(shelf, shelf.run(taker), shelf.run(lender))]
    if not found:
        return None
    return "" if len(found) == len(DATA) else f"on {listed(found)}"


def _takes(shelf: Shelf, taker: RunSummary | None, lender: RunSummary | None) -> bool:
    if taker is None or lender is None or own_trials(shelf, taker):
        return False
    ours, theirs = ([run.settings.get("train", {}).get(key) for key in _TAKEN] for run in (taker, lender))
    return ours == theirs


def kind_of(run: RunSummary) -> tuple[object, ...]:
    """What a trial shares with a training to be its own: data, network, loss, centers where it has any, method."""
    asked = (("data", "source"), ("model", "backbone"), ("loss", "name"), ("centers", "name"), ("method", "name"))
    data, network, loss, centers, method = (run.settings.get(part, {}).get(key) for part, key in asked)
    return data, network, loss, centers if loss in LOSSES and takes_centers(loss) else None, method
