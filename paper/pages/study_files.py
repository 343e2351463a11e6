"""Files of studies: made from a reproduction's folder in steps, because machines come and go between them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from maxmahal.attacks.threats import parse_epsilon
from maxmahal.records.schema import RecordsError
from maxmahal.records.types import Evaluation
from maxmahal.settings import from_table as settings_from_table
from maxmahal.train import Settings, preset_centers
from paper.pages.study import Results, Study, from_table
from paper.summaries import summarise, summarise_run
from paper.summaries.evaluations import read_object
from paper.summaries.severity import measure_severity

FORMAT = "maxmahal-variants-1"
FOLDER = "variants"
"""Of the studies' files, under the folder of results."""
_ATTACKED = ("suite", "suite_version", "norm", "epsilon", "samples", "data_fingerprint")
_TRAINED = ("settings", "test_accuracy", "validation", "centers")  # known without the records
_NO_DIFFERENCE = ("about", "table", "train.seed")  # settings in which all runs may differ
_VALIDATION = ("validation_pgd10", "validation_accuracy")


def read_results(folder: Path, studies: Iterable[Study]) -> list[Results]:
    """Of every study, in the page's order."""
    tables = [(study, read_table(study, folder / FOLDER / f"{study.name}.json")) for study in studies]
    return [Results(study, {}, ()) if table is None else from_table(study, table) for study, table in tables]


def read_table(study: Study, path: Path) -> dict[str, Any] | None:
    """The study's file, checked; None if there is none."""
    if not path.exists():
        return None
    content = read_object(path, FORMAT)
    try:
        from_table(study, content)
        whole_runs(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordsError(
            f"{path} is damaged ({type(error).__name__}: {error}); remove it and collect it again from its records."
        ) from error
    return content


def collect_study(
    study: Study, evaluations: Iterable[Evaluation], models: Path, earlier: Iterable[Mapping[str, Any]] = ()
) -> dict[str, Any] | None:
    """The content of a study's file; None if none of its runs was evaluated.

    The training of a run without a folder is taken from ``earlier`` files, of this study or of another.
    """
    known = {(run_name(run), run.get("fingerprint", "")): run for table in earlier for run in whole_runs(table)}
    runs, attacked = [], []
    for evaluation in evaluations:
        name = _arm_and_seed(study, evaluation.name)
        if name is not None and evaluation.finished and _belongs(study, evaluation):
            before = known.get((evaluation.name, evaluation.model_fingerprint))
            summary = summarise(evaluation)
            attacked.append({key: summary[key] for key in _ATTACKED})
            runs.append(
                {
                    "arm": name[0],
                    "seed": name[1],
                    "fingerprint": evaluation.model_fingerprint,
                    "versions": summary["environment"].get("versions", {}),
                    "clean": summary["clean"],
                    "robust": summary["robust"],
                    "stages": {each["name"]: each["accuracy"] for each in summary["stages"] if _ran_on_all(each)},
                    **_errors(study, evaluation),
                    **_training(study, models / evaluation.name, before),
                }
            )
    if not runs:
        return None
    if any(each != attacked[0] for each in attacked) or len({run_name(run) for run in runs}) < len(runs):
        raise RecordsError(f"The runs of {study.name} were not all attacked alike; keep one evaluation per run.")
    return assemble(study.name, attacked[0], runs)


def _arm_and_seed(study: Study, name: str) -> tuple[str, int] | None:
    arm, _, seed = name.rpartition("-seed")
    return (arm, int(seed)) if arm in {each.name for each in study.arms} and seed.isdigit() else None


def _belongs(study: Study, evaluation: Evaluation) -> bool:
    """By suite and epsilon: one suite at two epsilons makes two studies, whose records may be in one folder."""
    same_epsilon = not study.epsilon or math.isclose(evaluation.radius, parse_epsilon(study.epsilon))
    return evaluation.suite == study.suite and same_epsilon


def _ran_on_all(stage: Mapping[str, Any]) -> bool:
    return stage["accuracy"] is not None and stage["scope"] == "all" and stage["kind"] != "clean"


def _errors(study: Study, evaluation: Evaluation) -> dict[str, Any]:
    if not study.superclasses:
        return {}
    found = measure_severity(evaluation, study.superclasses)
    return {"mistakes": {name: list(severity.counts) for name, severity in found.items()}}


def _training(study: Study, folder: Path, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """From a file with the same weights, else from the run's folder, which may hold another training."""
    if before is not None:
        return {key: before[key] for key in _TRAINED if key in before}
    run = summarise_run(folder)
    found: dict[str, Any] = {"settings": flatten(run["settings"])}
    found["test_accuracy"] = [epoch["test_accuracy"] for epoch in run["epochs"]]
    if study.superclasses:
        centers = _geometry(settings_from_table(Settings, dict(run["settings"])), study.superclasses)
        found |= {"validation": validation_score(run["epochs"]), "centers": centers}
    return found


def validation_score(epochs: Sequence[Mapping[str, Any]]) -> float | None:
    """On held-out images after the last epoch, under PGD-10 if training is adversarial; None if there are none."""
    last = epochs[-1] if epochs else {}
    return next((last[name] for name in _VALIDATION if name in last), None)


def _geometry(settings: Settings, superclasses: tuple[int, ...]) -> dict[str, float]:
    """Of the centers at the start; elastic centers move later."""
    centers = preset_centers(settings, len(superclasses), superclasses).double()
    lengths = centers.norm(dim=1)
    distances = torch.cdist(centers, centers, compute_mode="donot_use_mm_for_euclid_dist")
    groups = torch.tensor(superclasses)
    across = groups[:, None] != groups
    others = ~torch.eye(len(groups), dtype=torch.bool)
    found = {
        "shortest": lengths.min(),
        "longest": lengths.max(),
        "nearest": distances[others].min(),
        "across": distances[across].min(),
    }
    return {name: round(float(value), 3) for name, value in found.items()}


def merge_tables(
    study: str, old: dict[str, Any] | None, new: dict[str, Any] | None, weights: Mapping[str, str]
) -> tuple[dict[str, Any] | None, list[str]]:
    """A study's file with what a folder adds to it, and the names of runs that it held with other weights.

    ``weights`` are the fingerprints of the folder's runs by name. A run that was trained again is removed from every
    study, also if it was not attacked again for that one: pages show one training under a name.
    """
    if old is None:
        return new, []
    fresh = {run_name(run): run for run in whole_runs(new)} if new else {}
    earlier = {run_name(run): run for run in whole_runs(old)}
    known = {name: _fingerprint(run) for name, run in earlier.items() if _fingerprint(run)}  # old files have none
    removed = [name for name, fingerprint in known.items() if weights.get(name, fingerprint) != fingerprint]
    if not fresh and not removed:
        return old, []
    kept = [run for name, run in earlier.items() if name not in fresh and name not in removed]
    if new and kept and new["about"] != old["about"]:
        raise RecordsError(
            f"The published runs of {study} were not attacked like those here ({_changes(old['about'], new['about'])})"
            f"; evaluate these alike, or remove {study}.json to begin the study again."
        )
    runs = [*kept, *fresh.values()]
    return (assemble(study, (new or old)["about"], runs) if runs else None), removed


def assemble(study: str, about: Mapping[str, Any], runs: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """A study's file from runs with all their settings; settings that all runs share are written once."""
    every = sorted(runs, key=lambda run: (run["arm"], run["seed"]))
    known = [run["settings"] for run in every if _fingerprint(run)]
    # Files older than fingerprints hold only settings that differ.
    differing = {key for run in every if not _fingerprint(run) for key in run["settings"]}
    differing |= {key for each in known for key in each if any(other.get(key) != each[key] for other in known)}
    differing -= set(_NO_DIFFERENCE)
    hidden = {*differing, *_NO_DIFFERENCE}
    return {
        "format": FORMAT,
        "study": study,
        "about": dict(about),
        "shared": {key: value for each in known[:1] for key, value in each.items() if key not in hidden},
        "runs": [
            {**run, "settings": {key: run["settings"][key] for key in sorted(differing & run["settings"].keys())}}
            for run in every
        ],
    }


def whole_runs(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The runs of a study's file with all their settings, as far as it holds them."""
    versions = {"versions": table["versions"]} if "versions" in table else {}
    return [
        {**versions, **run, "settings": {**(table["shared"] if _fingerprint(run) else {}), **run["settings"]}}
        for run in table["runs"]
    ]


def run_name(run: Mapping[str, Any]) -> str:
    """The name of its folder."""
    return f"{run['arm']}-seed{run['seed']}"


def flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by names such as "train.epochs"."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _fingerprint(run: Mapping[str, Any]) -> str:
    return str(run.get("fingerprint", ""))


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    return "; ".join(f"{key} {before.get(key)} there, {now.get(key)} here" for key in keys)
