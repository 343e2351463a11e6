"""A study is measured in steps, on machines that are gone by the next: what each leaves is added to its file."""

from collections.abc import Iterable, Mapping
from typing import Any

from maxmahal.records.schema import RecordsError

FORMAT = "maxmahal-variants-1"
_TOLD = ("about", "table", "train.seed")  # settings that tell models apart without making them different


def merge_tables(
    study: str, old: dict[str, Any] | None, new: dict[str, Any] | None, weights: Mapping[str, str]
) -> tuple[dict[str, Any] | None, list[str]]:
    """What was published of a study with what a folder holds of it, and the names of runs that had other weights.

    ``weights`` are the fingerprints of the folder's runs by name. One that was trained anew goes from every study it
    was in, also from those whose attacks it has not met again: pages show one training under a name.
    """
    if old is None:
        return new, []
    fresh = {run_name(run): run for run in whole_runs(new)} if new else {}
    earlier = {run_name(run): run for run in whole_runs(old)}
    # Files older than fingerprints do not say which weights they are of.
    told = {name: _fingerprint(run) for name, run in earlier.items() if _fingerprint(run)}
    removed = [name for name, fingerprint in told.items() if weights.get(name, fingerprint) != fingerprint]
    if not fresh and not removed:
        return old, []
    kept = [run for name, run in earlier.items() if name not in fresh and name not in removed]
    if new and kept and new["about"] != old["about"]:
        raise RecordsError(
            f"The published runs of {study} were not attacked like those here ({_apart(old['about'], new['about'])}); "
            f"evaluate these alike, or remove {study}.json to begin the study anew."
        )
    runs = [*kept, *fresh.values()]
    return (assemble(study, (new or old)["about"], runs) if runs else None), removed


def assemble(study: str, about: Mapping[str, Any], runs: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """A study's table from runs with all their settings; what all of them share is told once."""
    every = sorted(runs, key=lambda run: (run["arm"], run["seed"]))
    known = [run["settings"] for run in every if _fingerprint(run)]
    # Files older than fingerprints hold nothing but settings that differ.
    differing = {key for run in every if not _fingerprint(run) for key in run["settings"]}
    differing |= {key for each in known for key in each if any(other.get(key) != each[key] for other in known)}
    differing -= set(_TOLD)
    return {
        "format": FORMAT,
        "study": study,
        "about": dict(about),
        "shared": {key: value for each in known[:1] for key, value in each.items() if key not in {*differing, *_TOLD}},
        "runs": [{**run, "settings": _only(run["settings"], differing)} for run in every],
    }


def whole_runs(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The runs of a study's table with all their settings, as far as it holds them: what ``assemble`` takes."""
    versions = {"versions": table["versions"]} if "versions" in table else {}
    return [
        {**versions, **run, "settings": {**(table["shared"] if _fingerprint(run) else {}), **run["settings"]}}
        for run in table["runs"]
    ]


def run_name(run: Mapping[str, Any]) -> str:
    """As its folder was called."""
    return f"{run['arm']}-seed{run['seed']}"


def _fingerprint(run: Mapping[str, Any]) -> str:
    return str(run.get("fingerprint", ""))


def _only(settings: Mapping[str, Any], wanted: set[str]) -> dict[str, Any]:
    return {key: settings[key] for key in sorted(wanted) if key in settings}


def _apart(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    return "; ".join(f"{key} {before.get(key)} there, {now.get(key)} here" for key in keys)
