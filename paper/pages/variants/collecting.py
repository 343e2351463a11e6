"""What is published of a study, made from a reproduction's folder."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from maxmahal.attacks.threats import parse_epsilon
from maxmahal.records.schema import RecordsError
from maxmahal.records.types import Evaluation
from paper.pages.variants.merging import assemble, run_name, whole_runs
from paper.pages.variants.severity import mistakes_table, training_table
from paper.pages.variants.spec import Study
from paper.summaries import summarise, summarise_run

_ATTACKED = ("suite", "suite_version", "norm", "epsilon", "samples", "data_fingerprint")
_TRAINED = ("settings", "test_accuracy", "validation", "centers")  # what is known of a run without its records


def collect_study(
    study: Study, evaluations: Iterable[Evaluation], models: Path, earlier: Iterable[Mapping[str, Any]] = ()
) -> dict[str, Any] | None:
    """What is published of a study, as a table for JSON; None where none of its runs was evaluated.

    A run whose folder is gone may still be known from ``earlier`` tables, of this study or of another.
    """
    known = {(run_name(run), run.get("fingerprint", "")): run for table in earlier for run in whole_runs(table)}
    runs, attacked = [], []
    for evaluation in evaluations:
        name = _arm_and_seed(study, evaluation.name)
        if name is not None and evaluation.finished and _is_asked_for(study, evaluation):
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
                    "stages": {each["name"]: each["accuracy"] for each in summary["stages"] if _counts_alone(each)},
                    **mistakes_table(study, evaluation),
                    **_training(study, models / evaluation.name, before),
                }
            )
    if not runs:
        return None
    if any(each != attacked[0] for each in attacked) or len({run_name(run) for run in runs}) < len(runs):
        raise RecordsError(f"The runs of {study.name} were not all attacked alike; keep one evaluation a run.")
    return assemble(study.name, attacked[0], runs)


def _training(study: Study, folder: Path, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """From what was published of the same weights, else from the run's folder, which may be of another training."""
    if before is not None:
        return {key: before[key] for key in _TRAINED if key in before}
    summary = summarise_run(folder)
    return {
        "settings": _flatten(summary["settings"]),
        "test_accuracy": [epoch["test_accuracy"] for epoch in summary["epochs"]],
        **training_table(study, summary),
    }


def _arm_and_seed(study: Study, name: str) -> tuple[str, int] | None:
    arm, _, seed = name.rpartition("-seed")
    known = {each.name for each in study.arms}
    return (arm, int(seed)) if arm in known and seed.isdigit() else None


def _is_asked_for(study: Study, evaluation: Evaluation) -> bool:
    """By suite and ball: one suite in two balls makes two studies, whose records may lie in one folder."""
    in_ball = not study.epsilon or math.isclose(evaluation.radius, parse_epsilon(study.epsilon))
    return evaluation.suite == study.suite and in_ball


def _counts_alone(stage: Mapping[str, Any]) -> bool:
    return stage["accuracy"] is not None and stage["scope"] == "all" and stage["kind"] != "clean"


def _flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
