"""How a published checkpoint was made: of what, from what, where, how long, how exact, and by which code."""

import inspect
from typing import Any

from maxmahal.centers import CENTERS
from maxmahal.data.registry import SOURCES
from maxmahal.losses import LOSSES, takes_centers
from maxmahal.report.wording import duration, listed
from paper.pages.shelf import NOT_RUN, Shelf
from paper.summaries import RunSummary

_UNKNOWN = "unknown"


def made(shelf: Shelf, model: str, settings: dict[str, Any]) -> dict[str, str]:
    """Rows of a card; what nobody wrote down is unknown."""
    run = shelf.run(model)
    return {
        "checkpoint": _checkpoint(shelf, model, settings),
        "precision": _UNKNOWN if run is None else _precision(run),
        "time": NOT_RUN if run is None else f"{duration(run.train_seconds)} on {_place(run)}",
        "trained by": _UNKNOWN if run is None else _code(run.result),
        "measured by": _measured_by(shelf, model),
    }


def network(shelf: Shelf, model: str, settings: dict[str, Any]) -> str:
    """Its kind and its size."""
    table = settings.get("model", {})
    known = [each.model for each in shelf.evaluations if each.name == model and "parameters" in each.model]
    facts = [str(table.get("backbone", ""))]
    facts += [f"{table['feature_dim']} features"] if "feature_dim" in table else []
    facts += [f"{known[0]['parameters']:,} parameters"] if known else []
    return ", ".join(fact for fact in facts if fact)


def centers(settings: dict[str, Any]) -> dict[str, str]:
    """The preset centers and where they lie; nothing of a loss that has none."""
    name, dim = settings.get("loss", {}).get("name", ""), settings.get("model", {}).get("feature_dim")
    if name not in LOSSES or not takes_centers(name):
        return {}
    table = settings.get("centers", {})
    told = {key: value for key, value in table.items() if not _is_off(table.get("name", ""), key, value)}
    return {"centers": f"{options(told)}{f', in {dim} dimensions' if dim else ''}"}


def _is_off(name: str, key: str, value: object) -> bool:
    """A switch, tree or length of these centers that was left as it is by itself; what draws them is told always."""
    if name not in CENTERS or key in ("norm", "norms", "seed"):
        return False
    known = inspect.signature(CENTERS[name]).parameters
    return key in known and known[key].default == value


def images(settings: dict[str, Any]) -> str:
    """How many of the training images were left for training."""
    data = settings.get("data", {})
    if data.get("source") not in SOURCES:
        return _UNKNOWN
    every = sum(SOURCES[data["source"]].class_counts["train"])
    held = int(data.get("validation", 0))
    return f"{every - held:,} of {every:,} images, {held:,} held out for validation" if held else f"{every:,} images"


def options(table: dict[str, Any]) -> str:
    """A part's name and whatever it was set to, which what is empty was not."""
    first = [str(table["name"])] if "name" in table else []
    told = {key: value for key, value in table.items() if key != "name" and value not in ("", [], None)}
    return ", ".join(first + [f"{key} {_plain(value)}" for key, value in told.items()])


def _plain(value: object) -> str:
    return listed([str(each) for each in value]) if isinstance(value, list) else str(value)


def _checkpoint(shelf: Shelf, model: str, settings: dict[str, Any]) -> str:
    """The last one, as everything in the zoo is; and of which epoch."""
    epochs = [each.model["epoch"] for each in shelf.evaluations if each.name == model and "epoch" in each.model]
    planned = settings.get("train", {}).get("epochs")
    return f"last, epoch {epochs[0]} of {planned}" if epochs and planned else "last"


def _precision(run: RunSummary) -> str:
    kind = run.device.partition(":")[0]
    return str(run.settings.get(kind, {}).get("precision", _UNKNOWN)) if kind else _UNKNOWN


def _place(run: RunSummary) -> str:
    where = run.gpu or run.device or "an unknown device"
    return f"{where}, shared by {run.sharing} trainings" if run.sharing > 1 else where


def _code(result: dict[str, Any]) -> str:
    facts = [f"{name} {result[name]}" for name in ("maxmahal", "torch") if result.get(name)]
    facts += [f"commit {result['commit']}"] if result.get("commit") else []
    return ", ".join(facts) or _UNKNOWN


def _measured_by(shelf: Shelf, model: str) -> str:
    """Versions and commits of the evaluations; those of one model may differ."""
    found = []
    for each in shelf.evaluations:
        if each.name == model:
            versions = each.environment.get("versions", {})
            found.append(_code({**versions, "commit": each.environment.get("commit", "")}))
    return listed(list(dict.fromkeys(found))) if found else NOT_RUN
